// Error against execution order. What has no place on a logarithm has a lane of its own: equal below, NaN and infinity
// above, and what could not be measured at the very bottom.

const MOST_LABELS = 6;

// Where the lanes lie, as exponents of 10.
function chart_lanes(rows) {
  let low = Infinity;
  let high = -Infinity;
  const seen = {zero: false, none: false, infinite: false};
  for (const row of rows) {
    const error = error_of(row.tensor, selection.measure);
    if (error === null)
      seen.none = true;
    else if (error === 0)
      seen.zero = true;
    else if (!Number.isFinite(error))
      seen.infinite = true;
    else {
      low = Math.min(low, error);
      high = Math.max(high, error);
    }
  }
  const bottom = low <= high ? Math.floor(Math.log10(low)) : -8;
  const top = low <= high ? Math.max(bottom + 1, Math.ceil(Math.log10(high))) : 0;
  const step = Math.max(0.35, (top - bottom) * 0.09);
  return {
    bottom,
    top,
    zero: bottom - step,
    none: bottom - (seen.zero ? 2 : 1) * step,
    infinite: top + step,
    seen,
    range: [
      bottom - step * (0.6 + (seen.zero ? 1 : 0) + (seen.none ? 1 : 0)), top + step * (0.5 + (seen.infinite ? 1 : 0))
    ]
  };
}

function lane_value(error, lanes) {
  if (error === null) return 10 ** lanes.none;
  if (error === 0) return 10 ** lanes.zero;
  return Number.isFinite(error) ? error : 10 ** lanes.infinite;
}

function chart_ticks(range, lanes) {
  const inside = (at) => at >= range[0] && at <= range[1];
  const ticks = [];
  const low = Math.max(range[0], lanes.bottom);
  const high = Math.min(range[1], lanes.top);
  const every = Math.max(1, Math.ceil((high - low) / 8));
  const fine = high - low < 2 ? [1, 2, 5] : [1];
  for (let decade = Math.floor(low); decade <= high; decade += every) {
    for (const step of fine) {
      const at = decade + Math.log10(step);
      if (inside(at) && at >= low - 1e-9 && at <= high + 1e-9) {
        ticks.push([10 ** at, step === 1 ? power_text(decade) : number_text(step * 10 ** decade)]);
      }
    }
  }
  if (ticks.length < 2 && high > low) {
    for (let i = 0; i <= 4; ++i) {
      const at = 10 ** (low + (i * (high - low)) / 4);
      ticks.push([at, number_text(at, 4)]);
    }
  }
  if (lanes.seen.zero && inside(lanes.zero)) ticks.push([10 ** lanes.zero, 'equal']);
  if (lanes.seen.none && inside(lanes.none)) ticks.push([10 ** lanes.none, 'no number']);
  if (lanes.seen.infinite && inside(lanes.infinite)) ticks.push([10 ** lanes.infinite, 'NaN, Inf']);
  ticks.sort((a, b) => a[0] - b[0]);
  return {tickmode: 'array', tickvals: ticks.map((tick) => tick[0]), ticktext: ticks.map((tick) => tick[1])};
}

function chart_hover(row, data) {
  const {tensor} = row;
  const error = ERRORS.find((entry) => entry.id === selection.measure);
  const value = error_of(tensor, selection.measure);
  const name = row.key.length > 90 ? `${row.key.slice(0, 44)}…${row.key.slice(-44)}` : row.key;
  const size = value === null ? 'not known' : has_mismatch(tensor) ? 'NaN or Inf do not match' : number_text(value);
  const lines = [
    `<b>${plot_text(name)}</b>`, plot_text(row.verdict + (row.cause ? `, ${row.cause}` : '')), `${error.name}: ${size}`
  ];
  if (tensor.shape) lines.push(plot_text(`${tensor.dtype || ''} ${shape_text(tensor.shape)}`));
  const pass = data.passes.length > 1 ? ` of ${data.passes[row.pass].a}` : '';
  lines.push(plot_text(`order ${tensor.order ?? row.index}${pass}`));
  return lines.join('<br>');
}

function chart_traces(data, rows, lanes) {
  const type = scatter_type(rows.length);
  const trace = (chosen, name, marker, more = {}) => ({
    type,
    mode: 'markers',
    name,
    marker,
    hoverinfo: 'text',
    x: chosen.map((row) => row.id),
    y: chosen.map((row) => lane_value(error_of(row.tensor, selection.measure), lanes)),
    hovertext: chosen.map((row) => chart_hover(row, data)),
    customdata: chosen.map((row) => row.id),
    ...more,
  });
  const traces = [];
  for (const verdict of [...VERDICTS].reverse()) {  // the worst on top
    const chosen = rows.filter((row) => row.verdict === verdict.id);
    if (!chosen.length) continue;
    traces.push(trace(
        chosen, verdict.id,
        {color: css_color(verdict.color), symbol: verdict.symbol, size: rows.length > 2000 ? 5 : 7, opacity: 0.85}));
  }
  const marked = rows.filter((row) => data.introduced_ids.has(row.id));
  if (marked.length) {
    traces.push(trace(
        marked, 'introduced', {color: css_color('--ink'), symbol: 'circle-open', size: 15, line: {width: 2}},
        {hoverinfo: 'skip'}));
  }
  return {traces, marked};
}

function chart_labels(marked, lanes, narrow) {
  return marked.slice(0, narrow ? 2 : MOST_LABELS).map((row, i) => ({
                                                         x: row.id,
                                                         y: Math.log10(lane_value(
                                                             error_of(row.tensor, selection.measure), lanes)),
                                                         text: plot_text(short_name(row)),
                                                         showarrow: true,
                                                         arrowhead: 0,
                                                         arrowwidth: 1,
                                                         arrowcolor: css_color('--muted'),
                                                         ax: 0,
                                                         ay: -26 - 18 * (i % 3),
                                                         font: {size: 11, color: css_color('--ink')},
                                                         bgcolor: css_color('--card'),
                                                         borderpad: 2,
                                                         opacity: 0.95,
                                                         captureevents: false,
                                                       }));
}

// In HTML: Plotly's own takes the chart's room on a narrow page.
function draw_chart_legend(rows, marked) {
  const seen = new Set(rows.map((row) => row.verdict));
  const entries = VERDICTS.filter((verdict) => seen.has(verdict.id))
                      .map((verdict) => make('span', {}, verdict_glyph(verdict), verdict.id));
  if (marked.length) entries.push(make('span', {}, make('span', {class: 'glyph'}, '◯'), 'introduced'));
  find('chart-legend').replaceChildren(...entries);
}

function chart_note(rows, marked, lanes) {
  const error = ERRORS.find((entry) => entry.id === selection.measure);
  const parts = [error.explain];
  if (lanes.seen.none) {
    const without = rows.filter((row) => error_of(row.tensor, selection.measure) === null).length;
    parts.push(`${counted(without, 'tensor')} without a number ${without === 1 ? 'is' : 'are'} drawn at the bottom.`);
  }
  if (marked.length) parts.push('Rings mark where an error was introduced.');
  if (marked.length > MOST_LABELS) parts.push(`The first ${MOST_LABELS} of ${count_text(marked.length)} are labelled.`);
  return parts.join(' ');
}

// Resolves when the chart is drawn.
async function draw_order_chart(data) {
  const box = find('chart');
  find('chart-tools')
      .append(chooser(
          'Measure', ERRORS.map((error) => [error.id, error.name]), selection.measure, (measure) => select({measure}),
          {id: 'measure'}));
  const Plotly = await plotly_ready;
  let lanes = null;
  const draw = async () => {
    const rows = filtered_rows(data);
    lanes = chart_lanes(rows);
    const narrow = box.clientWidth < 520;
    const {traces, marked} = chart_traces(data, rows, lanes);
    const layout = plot_layout({
      height: narrow ? 300 : 360,
      showlegend: false,
      hovermode: 'closest',
      margin: {l: 60, r: 12, t: 20, b: 44},
      xaxis: plot_axis('execution order', {range: rows.length ? undefined : [0, 1], tickformat: ',d'}),
      yaxis: plot_axis('', {type: 'log', range: lanes.range, ...chart_ticks(lanes.range, lanes)}),
      annotations: rows.length ? chart_labels(marked, lanes, narrow) : [{
        text: 'nothing to draw: no tensor passes the filters',
        showarrow: false,
        xref: 'paper',
        yref: 'paper',
        x: 0.5,
        y: 0.5
      }],
    });
    await Plotly.react(box, traces, layout, PLOT_CONFIG);
    draw_chart_legend(rows, marked);
    find('chart-note').textContent = chart_note(rows, marked, lanes);
  };
  await draw();
  box.on('plotly_click', (event) => open_row(data.rows[event.points[0].customdata]));
  box.on('plotly_relayout', (change) => {
    if (!('yaxis.range[0]' in change) && !change['yaxis.autorange']) return;
    const range = change['yaxis.autorange'] ? lanes.range : [change['yaxis.range[0]'], change['yaxis.range[1]']];
    const ticks = chart_ticks(range, lanes);
    Plotly.relayout(box, {'yaxis.tickvals': ticks.tickvals, 'yaxis.ticktext': ticks.ticktext});
  });
  on_selection((names, filtered) => (filtered || names.has('measure')) && draw());
  on_theme(draw);
}
