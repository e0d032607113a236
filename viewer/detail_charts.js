// The charts of one tensor: where the error is, both histograms, and the error along each axis.

// [i, j, k] of the element at `flat` in C order.
function unravel(flat, shape) {
  const index = [];
  for (let axis = shape.length - 1; axis >= 0; --axis) {
    index.unshift(flat % shape[axis]);
    flat = Math.floor(flat / shape[axis]);
  }
  return index;
}

function span_text(first, step, all) {
  const last = Math.min(all, first + step) - 1;
  return last > first ? `${first}–${last}` : String(first);
}

// The elements of a cell, as the tensor's shape counts them.
function cell_place(heat, shape, down, right) {
  const row = down * heat.row_step;
  const column = right * heat.column_step;
  if (shape.length === 1) {
    const first = row * heat.columns + column;
    return `[${span_text(first, heat.column_step, shape[0])}]${
        heat.row_step > 1 ? ` and ${heat.row_step - 1} rows below` : ''}`;
  }
  const begin = unravel(row, shape.slice(0, -1));
  const end = unravel(Math.min(heat.rows, row + heat.row_step) - 1, shape.slice(0, -1));
  const rows = heat.row_step > 1 ? `[${begin.join(', ')}] to [${end.join(', ')}]` : begin.join(', ');
  const columns = span_text(column, heat.column_step, heat.columns);
  return heat.row_step > 1 ? `rows ${rows}, ${columns}` : `[${rows}, ${columns}]`;
}

// What a cell stands for, in words.
function heat_caption(heat, shape) {
  const many = heat.row_step * heat.column_step;
  const one = many === 1 ? 'A cell is one element.'
                         : `A cell holds the largest |b − a| of up to ${count_text(many)} elements: ` +
          `${count_text(heat.row_step)} down × ${count_text(heat.column_step)} right.`;
  if (shape.length <= 1)
    return `${one} The one axis is folded into ${counted(heat.rows, 'row')} of ${count_text(heat.columns)}.`;
  const down = shape.length === 2 ? 'axis 0' : `axes 0 to ${shape.length - 2}, one after another,`;
  return `${one} To the right: axis ${shape.length - 1} (${count_text(heat.columns)}); down: ${down} (${
      counted(heat.rows, 'row')}).`;
}

function heat_section(tensor, heat) {
  const shape = tensor.shape || [heat.rows, heat.columns];
  const cells = numbers_of(heat.cells);
  const grid = (of) => Array.from(
      {length: heat.cells_down},
      (_, down) => Array.from(
          {length: heat.cells_right}, (__, right) => of(cells[down * heat.cells_right + right], down, right)));
  const finite = cells.filter((value) => value !== null && Number.isFinite(value));
  const positive = finite.filter((value) => value > 0);
  const low = positive.reduce((a, b) => Math.min(a, b), Infinity);
  const high = positive.reduce((a, b) => Math.max(a, b), 0);
  const broken = cells.length - finite.length;
  const places = grid(
      (value, down, right) =>
          plot_text(`${cell_place(heat, shape, down, right)}`) +
          `<br>|b − a| ${
              value !== null && Number.isFinite(value) ? number_text(value, 4) : 'NaN or Inf do not match'}`);
  const box = make('div', {class: 'plot heat', role: 'img', 'aria-label': 'Heat map of the error'});
  let log = high / low > 100;

  const draw = async () => {
    const Plotly = await plotly_ready;
    const scaled = (value) => {
      if (value === null || !Number.isFinite(value)) return null;
      if (!log) return value;
      return value > 0 ? Math.log10(value) : null;
    };
    const bar = {thickness: 10, outlinewidth: 0, len: 1, title: {text: '|b − a|', side: 'right', font: {size: 11}}};
    if (log && positive.length) {
      const from = Math.ceil(Math.log10(low));
      const to = Math.floor(Math.log10(high));
      const every = Math.max(1, Math.ceil((to - from) / 6));
      const decades = [];
      for (let decade = from; decade <= to; decade += every) decades.push(decade);
      if (decades.length > 1)
        Object.assign(bar, {tickmode: 'array', tickvals: decades, ticktext: decades.map(power_text)});
      else
        Object.assign(bar, {
          tickmode: 'array',
          tickvals: [Math.log10(low), Math.log10(high)],
          ticktext: [number_text(low, 2), number_text(high, 2)]
        });
    } else
      Object.assign(bar, {exponentformat: 'power'});
    const at = (step, count) => Array.from({length: count}, (_, i) => i * step + (step - 1) / 2);
    const common = {
      type: 'heatmap',
      x: at(heat.column_step, heat.cells_right),
      y: at(heat.row_step, heat.cells_down),
      text: places,
      hoverinfo: 'text',
      xgap: 0,
      ygap: 0
    };
    const traces = [{
      ...common,
      z: grid(scaled),
      colorscale: plot_scale(),
      colorbar: bar,
      zmin: log && positive.length ? Math.log10(low) : 0,
      zmax: log && positive.length ? Math.log10(high) : high || 1
    }];
    if (broken) {
      const color = css_color('--shape');
      traces.push({
        ...common,
        z: grid((value) => (value === null || !Number.isFinite(value) ? 1 : null)),
        showscale: false,
        zmin: 0,
        zmax: 1,
        colorscale: [[0, color], [1, color]]
      });
    }
    await Plotly.react(
        box, traces, plot_layout({
          height: 336,
          margin: {l: 50, r: 8, t: 26, b: 40},
          xaxis: plot_axis(shape.length <= 1 ? '' : `axis ${shape.length - 1}`, {showgrid: false, constrain: 'domain'}),
          yaxis: plot_axis(
              shape.length <= 1        ? ''
                  : shape.length === 2 ? 'axis 0'
                                       : 'row',
              {showgrid: false, autorange: 'reversed'}),
        }),
        PLOT_CONFIG);
  };
  const notes = [heat_caption(heat, shape)];
  if (broken) notes.push(`Cells with NaN or Inf that do not match are in another colour: ${count_text(broken)}.`);
  const blank = make('span');
  const say = () => {
    blank.textContent = log && positive.length < finite.length ? ' Cells without error are blank.' : '';
  };
  say();
  const part = detail_part('Where the error is', [checkbox('log colour', log, (on) => {
                             log = on;
                             say();
                             draw();
                           }, {id: 'heat-log'})], [box, make('p', {class: 'hint'}, notes.join(' '), blank)]);
  return {part, draw};
}

function histogram_section(histogram) {
  const {low, high} = {low: number_of(histogram.low), high: number_of(histogram.high)};
  const bins = histogram.a.length;
  const width = (high - low) / bins || 1;
  const x = Array.from({length: bins}, (_, i) => low + (i + 0.5) * width);
  const bin = (i) => `${number_text(low + i * width)} … ${number_text(low + (i + 1) * width)}`;
  const box = make('div', {class: 'plot', role: 'img', 'aria-label': 'Histograms of both tensors'});
  let log = false;
  const draw = async () => {
    const Plotly = await plotly_ready;
    const trace = (counts, name, color, fill) => ({
      type: 'scatter',
      mode: 'lines',
      line: {shape: 'hvh', color: css_color(color), width: 1.5},
      x,
      y: counts,
      name,
      fill: fill ? 'tozeroy' : 'none',
      fillcolor: css_color('--a-fill'),
      hoverinfo: 'text',
      hovertext: counts.map((count, i) => `${name}: ${counted(count, 'value')} in ${bin(i)}`),
    });
    const traces = [trace(histogram.a, 'A', '--a', true), trace(histogram.b, 'B', '--b', false)];
    await Plotly.react(
        box, traces, plot_layout({
          height: 236,
          margin: {l: 50, r: 8, t: 26, b: 36},
          hovermode: 'x unified',
          showlegend: true,
          legend: {x: 0, y: 1, bgcolor: 'rgba(0,0,0,0)'},
          xaxis: plot_axis('value'),
          yaxis: plot_axis('', {type: log ? 'log' : 'linear', rangemode: 'tozero'}),
        }),
        PLOT_CONFIG);
  };
  const part = detail_part(
      'Values of both', [checkbox('log count', log, (on) => {
        log = on;
        draw();
      }, {id: 'histogram-log'})], [box, make('p', {class: 'hint'}, 'Finite values of both tensors in the same bins.')]);
  return {part, draw};
}

const AXIS_ERRORS = [['max_abs', 'max |b − a|'], ['rmse', 'RMSE'], ['outside', 'out of tolerance']];

function axes_section(axes) {
  let measure = axes.some((axis) => numbers_of(axis.max_abs).some((value) => value > 0)) ? 'max_abs' : 'outside';
  const boxes =
      axes.map((axis) => make('div', {class: 'plot', role: 'img', 'aria-label': `Error along axis ${axis.axis}`}));
  const draw = async () => {
    const Plotly = await plotly_ready;
    await Promise.all(axes.map((axis, i) => {
      const width = axis.width || 1;
      const y = numbers_of(axis[measure]);
      return Plotly.react(
          boxes[i], [{
            type: 'bar',
            x: y.map((_, at) => at * width + (width - 1) / 2),
            y,
            width,
            marker: {color: css_color('--diverged'), line: {width: 0}},
            hoverinfo: 'text',
            textposition: 'none',
            hovertext: y.map(
                (value, at) =>
                    `index ${span_text(at * width, width, Infinity)}: ${value === null ? '–' : number_text(value, 4)}`),
          }],
          plot_layout({
            height: 150,
            margin: {l: 50, r: 8, t: 6, b: 34},
            bargap: 0,
            xaxis: plot_axis(
                `axis ${axis.axis}${width > 1 ? `, ${count_text(width)} indices a bar` : ''}`,
                {tickformat: ',d', showgrid: false}),
            yaxis: plot_axis('', {exponentformat: 'power', nticks: 4, rangemode: 'tozero'}),
          }),
          {...PLOT_CONFIG, displayModeBar: false});
    }));
  };
  const part = detail_part('Error along each axis', [chooser('Error along the axes', AXIS_ERRORS, measure, (chosen) => {
                             measure = chosen;
                             draw();
                           }, {id: 'axis-measure'})], boxes);
  return {part, draw};
}
