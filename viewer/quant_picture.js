// A quantized tensor: its format, some values in their blocks, how often each code occurs, and the scales.

function quant_facts(picture) {
  const {against} = picture;
  return facts([
    ['format', picture.words],
    ['blocks', `${picture.block_rows} × ${picture.block_columns} of ${picture.rows} × ${picture.columns}`],
    ['scales', `${number_text(picture.scale_min)} … ${number_text(picture.scale_max)}`, 'decoded'],
    ['NaN scales', picture.scales_nan || null],
    ['blocks of zeros', picture.zero_blocks || null],
    ['SQNR', against && sqnr_text(against.sqnr_db), 'against the high-precision tensor'],
    ['underflow', against && percent_text(against.underflow_percent), 'not zero before, zero after'],
    ['overflow', against && percent_text(against.overflow_percent), 'beyond the largest code of its block'],
    ['max error', against && number_text(against.max_error)],
    ['range', against && range_text(against.dynamic_range), 'the largest by the smallest magnitude'],
    ['in a block', against && range_text(against.block_dynamic_range)],
  ]);
}

function sqnr_text(value) {
  const number = number_of(value);
  if (number === Infinity) return 'exact';
  if (number === null || !Number.isFinite(number)) return 'nothing left';
  return `${number.toFixed(1)} dB`;
}

function percent_text(value) {
  return share_text(number_of(value) ?? 0, 100);
}

function range_text(value) {
  const number = number_of(value);
  return number === null ? '–' : [`2`, make('sup', {}, number.toFixed(1))];
}

// Whether a block, or a stretch that is not shown, ends before entry `i`.
function seam_class(shown, i, block) {
  if (i === 0) return '';
  if (Math.floor(shown[i] / block) !== Math.floor(shown[i - 1] / block)) return ' border';
  return shown[i] !== shown[i - 1] + 1 ? ' gap' : '';
}

// The values as a table: a thick line where a block ends, a dotted one where some are left out. The scale of a block
// stands before its first value.
function block_grid_part(picture) {
  const {grid, block_rows, block_columns} = picture;
  const columns = grid.columns.length;
  const value_cell = (row, column) => {
    const cell = row * columns + column;
    const down = seam_class(grid.rows, row, block_rows);
    const right = seam_class(grid.columns, column, block_columns);
    const starts = column === 0 || right === ' border';
    const told = starts && (row === 0 || down === ' border');
    const before = grid.before ? `; ${number_text(grid.before[cell], 6)} before` : '';
    const title = `[${grid.rows[row]}, ${grid.columns[column]}] = ${number_text(grid.values[cell], 6)}${before}`;
    const style = (down && ` down-${down.trim()}`) + (right && ` right-${right.trim()}`);
    return [
      starts && make('td', {class: `scale mono${style}`}, told && `×${number_text(grid.scales[cell])}`),
      make(
          'td', {class: `value mono${starts ? style.replace(/ right-\w+/, '') : style}`, title},
          number_text(grid.values[cell])),
    ];
  };
  const head = grid.columns.map((column, i) => {
    const right = seam_class(grid.columns, i, block_columns);
    const starts = i === 0 || right === ' border';
    return [starts && make('th', {}, ''), make('th', {scope: 'col'}, column)];
  });
  const body = grid.rows.map(
      (row, i) =>
          make('tr', {}, make('th', {scope: 'row'}, row), grid.columns.map((_, column) => value_cell(i, column))));
  return detail_part('Values in their blocks', [], [
    make(
        'div', {class: 'scroll'},
        make(
            'table', {class: 'blocks'}, make('thead', {}, make('tr', {}, make('th', {}, ''), head)),
            make('tbody', {}, body))),
    make(
        'p', {class: 'hint'},
        'Decoded values. A line is where a block ends; the scale of a block stands before its first value; dots are ' +
            'where values are left out.')
  ]);
}

function codes_section(picture) {
  const bins = picture.code_bins;
  const name = (bin) => {
    const low = number_of(bin.low);
    if (Number.isNaN(low)) return 'NaN';
    if (bin.low === bin.high) return Object.is(low, -0) ? '-0' : number_text(bin.low);
    return `${number_text(bin.low)} … ${number_text(bin.high)}`;
  };
  const total = bins.reduce((sum, bin) => sum + bin.count, 0);
  const box = make('div', {class: 'plot codes', role: 'img', 'aria-label': 'How often each code occurs'});
  let log = false;
  const draw = async () => {
    const Plotly = await plotly_ready;
    await Plotly.react(
        box, [{
          type: 'bar',
          x: bins.map((bin) => `${bin.codes}<br>${plot_text(name(bin))}`),
          y: bins.map((bin) => bin.count),
          marker: {color: css_color('--a'), line: {width: 0}},
          hoverinfo: 'text',
          textposition: 'none',
          hovertext: bins.map(
              (bin) => `${bin.codes}: ${plot_text(name(bin))}<br>${counted(bin.count, 'value')}, ${
                  share_text(bin.count, total)}`),
        }],
        plot_layout({
          height: 236,
          margin: {l: 50, r: 8, t: 6, b: 60},
          bargap: 0.15,
          xaxis: plot_axis('', {type: 'category', showgrid: false, tickfont: {size: 10}}),
          yaxis: plot_axis('', {type: log ? 'log' : 'linear', rangemode: 'tozero'}),
        }),
        PLOT_CONFIG);
  };
  const part = detail_part('Codes', [checkbox('log count', log, (on) => {
                             log = on;
                             draw();
                           }, {class: 'codes-log'})], [box]);
  return {part, draw};
}

function scales_section(picture) {
  const map = picture.scales;
  const cells = numbers_of(map.cells);
  const line = (down, of) =>
      Array.from({length: map.cells_right}, (_, right) => of(cells[down * map.cells_right + right], down, right));
  const rows = (of) => Array.from({length: map.cells_down}, (_, down) => line(down, of));
  const positive = cells.filter((value) => Number.isFinite(value) && value > 0).map(Math.log2);
  const box = make('div', {class: 'plot scales', role: 'img', 'aria-label': 'Heat map of the scales'});
  const draw = async () => {
    const Plotly = await plotly_ready;
    const low = positive.reduce((a, b) => Math.min(a, b), Infinity);
    const high = positive.reduce((a, b) => Math.max(a, b), -Infinity);
    const at = (step, count) => Array.from({length: count}, (_, i) => i * step + (step - 1) / 2);
    await Plotly.react(
        box, [{
          type: 'heatmap',
          x: at(map.column_step, map.cells_right),
          y: at(map.row_step, map.cells_down),
          z: rows((value) => (Number.isFinite(value) && value > 0 ? Math.log2(value) : null)),
          text: rows(
              (value, down, right) => `blocks [${span_text(down * map.row_step, map.row_step, map.rows)}, ${
                  span_text(
                      right * map.column_step, map.column_step, map.columns)}]<br>scale ${number_text(value, 4)}`),
          hoverinfo: 'text',
          colorscale: plot_scale(),
          zmin: positive.length ? low : 0,
          zmax: positive.length && high > low ? high : low + 1,
          colorbar: {thickness: 10, outlinewidth: 0, tickprefix: '2<sup>', ticksuffix: '</sup>'},
        }],
        plot_layout({
          height: 300,
          margin: {l: 50, r: 8, t: 6, b: 40},
          xaxis: plot_axis('blocks to the right', {showgrid: false, constrain: 'domain'}),
          yaxis: plot_axis('blocks down', {showgrid: false, autorange: 'reversed'}),
        }),
        PLOT_CONFIG);
  };
  const many = map.row_step * map.column_step;
  const note = many > 1 ? ` A cell is the largest scale of up to ${count_text(many)} blocks.` : '';
  const part = detail_part(
      'Scales', [],
      [box, make('p', {class: 'hint'}, `${counted(map.rows * map.columns, 'scale')}, by powers of two.${note}`)]);
  return {part, draw};
}

// All of it, as parts of a page and charts to be drawn when they are in it. `whose`: "A", "B", or nothing.
function quant_sections(picture, whose) {
  const intro = detail_part(whose ? `Quantized in ${whose}` : 'Quantized', [], [quant_facts(picture)]);
  const sections = [{part: intro, draw: () => {}}];
  if (picture.grid.values.length) sections.push({part: block_grid_part(picture), draw: () => {}});
  if (picture.codes.length) sections.push(codes_section(picture));
  if (picture.scales.cells_down && picture.scales.cells_right) sections.push(scales_section(picture));
  return sections;
}
