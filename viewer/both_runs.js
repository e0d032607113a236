// The two runs beside one another: what has no counterpart, what each did not see, and how they were made.

function fold(title, count, content, open = false, attributes = {}) {
  return make(
      'details', {class: 'card fold', open, ...attributes},
      make('summary', {}, make('h2', {}, title), make('span', {class: 'hint'}, count)), content);
}

function draw_unmatched(data) {
  const list = (title, rows) => rows.length
      ? make(
            'div', {}, make('h3', {}, `${title} (${count_text(rows.length)})`),
            grow(
                make('ul', {class: 'names'}), rows, 100,
                (row) => make(
                    'li', {}, row_link(row), ' ',
                    make(
                        'span', {class: 'hint'},
                        [row.tensor.dtype, row.tensor.shape && shape_text(row.tensor.shape)].filter(Boolean).join(
                            ' ')))))
      : null;
  const missing = data.rows.filter((row) => row.verdict === 'missing');
  const extra = data.rows.filter((row) => row.verdict === 'extra');
  const passes = data.report.unmatched_passes || [];
  const total = missing.length + extra.length + passes.length;
  const content = make(
      'div', {class: 'two'}, list('Only in A', missing), list('Only in B', extra),
      passes.length ? make(
                          'div', {}, make('h3', {}, `Passes without a counterpart (${count_text(passes.length)})`),
                          grow(
                              make('ul', {class: 'names'}), passes, 100,
                              (pass) => make('li', {}, `${String(pass.side).toUpperCase()}: ${pass.place}`)))
                    : null);
  return fold(
      'Unmatched', total ? counted(total, 'entry', 'entries') : 'everything has a counterpart',
      total ? content
            : make('p', {class: 'hint'}, 'Every tensor and every pass of one run has its counterpart in the other.'),
      false, {id: 'unmatched'});
}

function is_object(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

// One line of text for any value.
function value_text(value) {
  if (value === null || value === undefined) return '–';
  if (Array.isArray(value)) return value.map(value_text).join(' ');
  if (is_object(value) && typeof value.name === 'string') {
    const {name, type, why, ...rest} = value;
    return name + (type ? ` (${type})` : '') + (why ? `: ${why}` : '') +
        (Object.keys(rest).length ? `: ${value_text(rest)}` : '');
  }
  if (is_object(value)) return Object.entries(value).map(([name, inner]) => `${name} ${value_text(inner)}`).join(', ');
  return String(value);
}

// Nested objects as dotted names; arrays stay whole.
function flatten(value, prefix = '', into = new Map()) {
  for (const [name, inner] of Object.entries(value || {})) {
    const path = prefix ? `${prefix}.${name}` : name;
    if (is_object(inner) && Object.keys(inner).length)
      flatten(inner, path, into);
    else
      into.set(path, inner);
  }
  return into;
}

function side_by_side(a, b) {
  const [left, right] = [flatten(a), flatten(b)];
  const names = [...new Set([...left.keys(), ...right.keys()])];
  return names.map((name) => {
    const [in_a, in_b] = [left.get(name), right.get(name)];
    return {name, a: in_a, b: in_b, differs: JSON.stringify(in_a) !== JSON.stringify(in_b)};
  });
}

function comparison_table(lines) {
  return make(
      'div', {class: 'scroll'},
      make(
          'table', {class: 'plain compare'},
          make('thead', {}, make('tr', {}, ['', 'A', 'B'].map((title) => make('th', {scope: 'col'}, title)))),
          grow(
              make('tbody'), lines, 300,
              (line) => make(
                  'tr', {class: line.differs ? 'differs' : null, 'data-name': line.name},
                  make(
                      'th', {scope: 'row'},
                      line.differs ? make('span', {class: 'differ-mark', title: 'differs'}, '≠ ') : null, line.name),
                  make('td', {class: 'mono'}, value_text(line.a)), make('td', {class: 'mono'}, value_text(line.b))))));
}

// A list of each side; what only one side has is marked.
function list_pair(line) {
  const texts = (value) => (Array.isArray(value)                        ? value
                                : value === undefined || value === null ? []
                                                                        : [value])
                               .map(value_text);
  const [a, b] = [texts(line.a), texts(line.b)];
  const side = (title, own, other) => {
    const known = new Set(other);
    return make(
        'div', {}, make('h3', {}, `${title}: ${count_text(own.length)}`),
        grow(
            make('ul', {class: 'names mono'}), own, 100,
            (text) => make('li', {class: known.has(text) ? null : 'differs'}, text)));
  };
  return make(
      'details', {class: 'inner'},
      make(
          'summary', {}, line.differs ? make('span', {class: 'differ-mark', title: 'differs'}, '≠ ') : null,
          line.name.replace(/_/g, ' '),
          make('span', {class: 'hint'}, ` A ${count_text(a.length)}, B ${count_text(b.length)}`)),
      make('div', {class: 'two'}, side('A', a, b), side('B', b, a)));
}

function draw_coverage(report) {
  const lines = side_by_side(report.a && report.a.coverage, report.b && report.b.coverage);
  if (!lines.length)
    return fold(
        'Coverage', 'not recorded', make('p', {class: 'hint'}, 'Neither run says what it did not see.'), false,
        {id: 'coverage'});
  const is_list = (line) => Array.isArray(line.a) || Array.isArray(line.b);
  const lists = lines.filter((line) => is_list(line) && ((line.a || []).length || (line.b || []).length));
  const plain = lines.filter((line) => !is_list(line)).map((line) => ({...line, name: line.name.replace(/_/g, ' ')}));
  const differ = lines.filter((line) => line.differs).length;
  return fold(
      'Coverage',
      differ ? `what each run did not see; ${counted(differ, 'difference')}`
             : 'what each run did not see; the same in both',
      [plain.length ? comparison_table(plain) : null, lists.map(list_pair)], false, {id: 'coverage'});
}

function draw_metadata(report) {
  const run = (side) => ({path: side && side.path, ranks: side && side.ranks, ...((side && side.metadata) || {})});
  const lines = side_by_side(run(report.a), run(report.b));
  const differing = lines.filter((line) => line.differs);
  const box = make('div');
  const draw = (all) => box.replaceChildren(comparison_table(all ? lines : differing));
  const all = !differing.length;
  draw(all);
  return fold(
      'The two runs', differing.length ? counted(differing.length, 'difference') : 'made alike',
      [
        checkbox(`show all ${count_text(lines.length)}, not only the differences`, all, draw, {id: 'all-metadata'}), box
      ],
      differing.length > 0, {id: 'metadata'});
}

function draw_options(report) {
  const lines = [...flatten(report.options)].map(
      ([name, value]) =>
          make('tr', {}, make('th', {scope: 'row'}, name), make('td', {class: 'mono'}, value_text(value))));
  if (!lines.length) return null;
  return fold(
      'Options of this comparison', '', make('table', {class: 'plain'}, make('tbody', {}, lines)), false,
      {id: 'options'});
}

function draw_runs(data) {
  append(
      find('runs'),
      [draw_metadata(data.report), draw_unmatched(data), draw_coverage(data.report), draw_options(data.report)]);
}
