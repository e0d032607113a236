// Everything about one tensor, in a drawer beside the page.

function detail_part(title, tools, content) {
  return make(
      'section', {class: 'part'},
      make('div', {class: 'card-head'}, make('h3', {}, title), make('div', {class: 'tools'}, tools)), content);
}

function facts(pairs) {
  return make(
      'dl', {class: 'facts'},
      pairs.filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== false)
          .map(([name, value, title]) => [make('dt', {title}, name), make('dd', {}, value)]));
}

function both(a, b) {
  return b === undefined || b === null || b === a
      ? a
      : [a, make('span', {class: 'hint'}, ' in A, '), b, make('span', {class: 'hint'}, ' in B')];
}

function matched_text(tensor) {
  if (tensor.matched === 'structure')
    return `by structure, confidence ${share_text(number_of(tensor.confidence) ?? 0, 1)}`;
  const words = {map: 'by the mapping file', bits: 'it has the same bits', place: 'it stands in its place'};
  return words[tensor.matched] ?? null;
}

function quantized_text(tensor) {
  const {quantized_a, quantized_b} = tensor;
  if (!quantized_a && !quantized_b) return null;
  const of = (text, side) => text && [text, make('span', {class: 'hint'}, ` in ${side}`)];
  return [of(quantized_a, 'A'), quantized_a && quantized_b && make('br'), of(quantized_b, 'B')];
}

function tolerance_part(tensor) {
  const {tolerance} = tensor;
  if (!tolerance) return null;
  const rule = tolerance.predicate
      ? make('code', {}, tolerance.predicate)
      : [make('code', {}, `|b − a| ≤ ${number_text(tolerance.atol)} + ${number_text(tolerance.rtol)} · |a|`)];
  if (!tolerance.predicate && typeof tolerance.relative === 'number')
    rule.push(' and ', make('code', {}, `relative ≤ ${number_text(tolerance.relative)}`));
  return [rule, tolerance.source ? make('span', {class: 'hint'}, ` (${tolerance.source})`) : null];
}

function cause_part(row, data) {
  if (!row.cause) return row.tensor.reason ? make('p', {class: 'reason'}, row.tensor.reason) : null;
  const source = row.tensor.from === null || row.tensor.from === undefined
      ? null
      : data.row_at({pass: row.tensor.from_pass ?? row.pass, tensor: row.tensor.from});
  return make(
      'p', {class: 'reason'}, cause_pill(row.cause), source && [' from ', row_link(source, source.key, {id: 'from'})],
      row.tensor.reason ? ` ${source ? '· ' : ''}${row.tensor.reason}` : ` ${CAUSES[row.cause] || ''}`);
}

function measures_part(tensor) {
  const {measures} = tensor;
  if (!measures) {
    const why = tensor.verdict === 'identical' ? 'The bits are the same; nothing had to be measured.'
                                               : 'No bytes were compared, so there is nothing to measure.';
    return detail_part('Measures', [], [make('p', {class: 'hint'}, why)]);
  }
  const entry = ([id, name, explain, text]) => {
    const shown = text ? text(measures) : number_text(measures[id], 4);
    const bad = (id === 'nan_mismatches' || id === 'inf_mismatches') && number_of(measures[id]) > 0;
    return make(
        'tr', {'data-measure': id}, make('th', {scope: 'row', title: explain}, name),
        make('td', {class: bad ? 'mono strong' : 'mono'}, shown), make('td', {class: 'explain'}, explain));
  };
  const known = MEASURES.filter(([id]) => id === 'relative' || number_of(measures[id]) !== null);
  return detail_part('Measures', [], [make('table', {class: 'measures'}, make('tbody', {}, known.map(entry)))]);
}

function axis_lines(tensor) {
  return (tensor.axes || []).filter((axis) => number_of(axis.share) > 0).map((axis) => {
    const first = axis.first;
    const where = axis.width > 1 ? `indices ${first} to ${first + axis.width - 1}` : `index ${first}`;
    const share = share_text(number_of(axis.share), 1);
    const most = number_text(axis.max_abs);
    return make('li', {}, `axis ${axis.axis}, ${where}: ${share} of the squared error, max |b − a| ${most}`);
  });
}

function worst_part(tensor, worst) {
  if (!worst.length) return null;
  const line = (pair) => {
    const [a, b] = [number_of(pair.a), number_of(pair.b)];
    const gap = a === null || b === null ? null : Math.abs(b - a);
    return make(
        'tr', {}, make('td', {class: 'mono'}, place_text(pair.index, pair.part, tensor.dtype)),
        make('td', {class: 'mono'}, number_text(pair.a, 8)), make('td', {class: 'mono'}, number_text(pair.b, 8)),
        make('td', {class: 'mono'}, number_text(gap)),
        make('td', {class: 'mono'}, gap === null ? '–' : number_text(ratio(gap, Math.abs(a)))));
  };
  return detail_part(
      'Worst elements', [],
      [make(
          'div', {class: 'scroll'},
          make(
              'table', {class: 'plain', id: 'worst'},
              make(
                  'thead', {},
                  make(
                      'tr', {},
                      ['element', 'A', 'B', '|b − a|', '/ |a|'].map((title) => make('th', {scope: 'col'}, title)))),
              make('tbody', {}, worst.map(line))))]);
}

function shell_word(text) {
  return /^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replace(/'/g, '\'\\\'\'')}'`;
}

function no_detail_part(data) {
  const {a, b} = data.report;
  const runs = `${shell_word((a && a.path) || 'A')} ${shell_word((b && b.path) || 'B')}`;
  const command = `ttap diff ${runs} --html report.html --details ${data.rows.length}`;
  return detail_part('Pictures', [], [
    make(
        'p', {id: 'no-detail'},
        'No detail kept in this page for this tensor. This keeps it, where both runs have its bytes:'),
    make('pre', {}, make('code', {}, command))
  ]);
}

function tensor_detail(row, data, neighbour) {
  const {tensor} = row;
  const close = () => select({open: null});
  const step = (by, text, label) => {
    const other = neighbour(row, by);
    return button(
        text, () => other && open_row(other), {class: 'quiet', 'aria-label': label, title: label, disabled: !other});
  };
  const pass = data.passes[row.pass];
  const content = [
    make(
        'div', {class: 'drawer-head'},
        make(
            'div', {class: 'tools'}, step(-1, '↑', 'previous tensor of the table'),
            step(1, '↓', 'next tensor of the table'), make('span', {class: 'spring'}),
            button('✕', close, {class: 'quiet', 'aria-label': 'close', id: 'close'})),
        make('h2', {class: 'mono', id: 'detail-key'}, breakable(row.key)),
        make(
            'p', {class: 'pills'}, verdict_pill(row.verdict),
            tensor.evidence && make('span', {class: 'hint'}, ` by ${tensor.evidence}`))),
    cause_part(row, data),
    facts([
      ['tolerance', tolerance_part(tensor), 'what counts as equal here, and who said so'],
      ['in B', tensor.key_b],
      ['matched', matched_text(tensor)],
      ['dtype', both(tensor.dtype, tensor.dtype_b)],
      ['quantized', quantized_text(tensor), 'its values were decoded to be compared'],
      ['shape', tensor.shape && both(shape_text(tensor.shape), tensor.shape_b && shape_text(tensor.shape_b))],
      ['kind', tensor.event_kind],
      ['parent', tensor.parent],
      ['call', both(tensor.call_a?.text, tensor.call_b?.text)],
      ['line', both(tensor.call_a?.line, tensor.call_b?.line)],
      ['order', tensor.order],
      ['pass', data.passes.length > 1 && both(pass.a, pass.b)],
      ['ranks', (tensor.ranks || []).join(', '), 'whose part is out of tolerance'],
      ['note', tensor.note],
    ]),
    axis_lines(tensor).length ? make('ul', {class: 'axis-lines'}, axis_lines(tensor)) : null,
  ];
  const detail = data.details.get(row.id);
  const charts = [];
  const only_one = row.verdict === 'missing' || row.verdict === 'extra';
  if (detail) {
    if (detail.heat && detail.heat.cells_down && detail.heat.cells_right)
      charts.push(heat_section(tensor, detail.heat));
    if (detail.histogram && detail.histogram.a && detail.histogram.a.length)
      charts.push(histogram_section(detail.histogram));
    if (detail.axes && detail.axes.length) charts.push(axes_section(detail.axes));
    for (const whose of ['a', 'b'])
      if (detail[`quant_${whose}`]) charts.push(...quant_sections(detail[`quant_${whose}`], whose.toUpperCase()));
  }
  const worst = detail && detail.worst && detail.worst.length ? detail.worst
      : tensor.measures && tensor.measures.worst              ? [tensor.measures.worst]
                                                              : [];
  content.push(
      charts.length ? charts[0].part : null, worst_part(tensor, worst), charts.slice(1).map((chart) => chart.part),
      only_one ? null : measures_part(tensor),
      !detail && !only_one && row.verdict !== 'identical' ? no_detail_part(data) : null);
  return {content, draw: () => charts.forEach((chart) => chart.draw())};
}

function start_tensor_detail(data, neighbour) {
  const drawer = find('detail');
  let shown = null;
  let before = null;
  const purge = () => drawer.querySelectorAll('.js-plotly-plot').forEach((plot) => window.Plotly.purge(plot));
  const show = () => {
    const row = selection.open;
    purge();
    if (!row) {
      drawer.hidden = true;
      drawer.replaceChildren();
      shown = null;
      if (before && before.isConnected) before.focus({preventScroll: true});
      before = null;
      return;
    }
    before ??= document.activeElement;
    shown = tensor_detail(row, data, neighbour);
    drawer.replaceChildren();
    append(drawer, shown.content);
    drawer.hidden = false;
    drawer.scrollTop = 0;
    drawer.focus({preventScroll: true});
    shown.draw();
  };
  on_selection((names) => names.has('open') && show());
  on_theme(() => shown && shown.draw());
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && selection.open) select({open: null});
  });
}
