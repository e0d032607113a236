// The table of tensors. Only the lines in sight are elements, so that its length costs nothing.

const LINE = 30;    // pixels, as in parts.css
const AROUND = 12;  // lines drawn above and below what is in sight

const COLUMNS = [
  {id: 'order', title: '#', explain: 'execution order', sort: (row) => row.id},
  {id: 'key', title: 'tensor', explain: 'the key of the tensor in A', sort: null},
  {id: 'verdict', title: 'verdict', sort: (row) => VERDICTS.findIndex((verdict) => verdict.id === row.verdict)},
  ...ERRORS.map((error) => ({
                  id: error.id,
                  title: error.short,
                  explain: error.explain,
                  measure: error,
                  sort: (row) => error_of(row.tensor, error.id)
                })),
];

const CAUSE_MARKS = {
  introduced: '◉',
  inherited: '↳',
  unknown: '?'
};

function cause_mark(cause) {
  return CAUSE_MARKS[cause] &&
      make('span', {class: 'cause-mark', title: `${cause}: ${CAUSES[cause]}`, 'aria-label': cause}, CAUSE_MARKS[cause]);
}

// Where there is no room, a name loses its middle: its end says the most.
function name_in_two(key) {
  const steps = key.split('.');
  let end = steps.pop();
  while (steps.length && end.length + steps[steps.length - 1].length < 24) end = `${steps.pop()}.${end}`;
  const begin = key.slice(0, key.length - end.length);
  return [begin && make('span', {class: 'begin'}, begin), make('span', {class: 'end'}, end)];
}

function table_cell(row, column) {
  const {tensor} = row;
  if (column.id === 'order') return String(tensor.order ?? row.index);
  if (column.id === 'verdict') return [verdict_pill(row.verdict), cause_mark(row.cause)];
  if (column.id === 'key') {
    return [
      make('span', {class: 'mono key'}, name_in_two(row.key)),
      tensor.matched === 'structure' && make('span', {class: 'tag', title: 'matched by structure'}, 'guessed')
    ];
  }
  const error = error_of(tensor, column.id);
  if (has_mismatch(tensor) && column.id === 'relative') return make('span', {class: 'strong'}, 'NaN, Inf');
  return has_mismatch(tensor) ? number_text(column.measure.of(tensor.measures)) : number_text(error);
}

function sorted_rows(rows, sort) {
  const column = COLUMNS.find((entry) => entry.id === sort.column);
  const rank = (row) => {
    const value = column.sort(row);
    return value === null || Number.isNaN(value) ? (sort.down ? -Infinity : Infinity) : value;  // not known: last
  };
  const keyed = rows.map((row) => [rank(row), row]);
  keyed.sort((a, b) => (a[0] === b[0] ? a[1].id - b[1].id : sort.down ? (a[0] < b[0] ? 1 : -1) : a[0] < b[0] ? -1 : 1));
  return keyed.map((entry) => entry[1]);
}

function search_box() {
  const problem = make('span', {class: 'hint', id: 'search-problem', role: 'status'});
  const input = make('input', {
    type: 'search',
    id: 'search',
    placeholder: 'name, or /regex/',
    'aria-label': 'Search tensors',
    autocomplete: 'off',
    spellcheck: 'false'
  });
  let waiting = 0;
  const apply = () => {
    const text = input.value.trim();
    if (search_test(text) === null) {
      problem.textContent = 'this is no regular expression';
      return;
    }
    problem.textContent = '';
    if (text !== selection.search) select({search: text});
  };
  input.addEventListener('input', () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 100);
  });
  on_selection((names) => {
    if (names.has('search') && input.value.trim() !== selection.search) input.value = selection.search;
  });
  return [problem, input];
}

function draw_tensor_table(data) {
  const sort = {column: 'order', down: false};
  let rows = [];
  let active = 0;

  const body = make('div', {class: 'lines', role: 'rowgroup'});
  const head = make('div', {class: 'line head', role: 'row', 'aria-rowindex': 1});
  const grid = make(
      'div', {class: 'grid', role: 'grid', tabindex: 0, 'aria-label': 'Tensors: arrow keys move, Enter opens'}, head,
      body);
  const status = make('span', {class: 'hint', id: 'shown', role: 'status'});
  const passes = data.passes.length > 1 &&
      chooser('Pass',
              [
                ['', 'all passes'],
                ...data.passes.map(
                    (pass, i) => [String(i), pass.a === pass.b || !pass.b ? pass.a : `${pass.a} ↔ ${pass.b}`])
              ],
              '', (value) => select({pass: value === '' ? null : Number(value)}), {id: 'pass'});
  append(find('table-tools'), [status, search_box(), passes]);
  find('table').append(grid);

  const titles = COLUMNS.map((column) => {
    const cell = make('div', {role: 'columnheader', class: `c-${column.id}`, title: column.explain});
    if (!column.sort) {
      cell.append(column.title);
      return cell;
    }
    cell.append(button(column.title, () => {
      if (sort.column === column.id)
        sort.down = !sort.down;
      else
        Object.assign(sort, {column: column.id, down: Boolean(column.measure)});  // large errors first
      update(false);
    }, {class: 'sort', 'data-sort': column.id}));
    return cell;
  });
  append(head, titles);

  const line_of = (row, at) => {
    const line = make('div', {
      role: 'row',
      id: `line-${row.id}`,
      'aria-rowindex': at + 2,
      'data-id': row.id,
      class: [
        'line', at === active && 'active', row === selection.open && 'opened',
        data.introduced_ids.has(row.id) && 'introduced'
      ].filter(Boolean)
                 .join(' '),
      style: `transform:translateY(${at * LINE}px)`,
      title: row.key,
    });
    return append(
        line,
        COLUMNS.map((column) => make('div', {role: 'gridcell', class: `c-${column.id}`}, table_cell(row, column))));
  };
  let drawn = '';
  const draw = (force) => {
    const top = Math.max(0, Math.floor(grid.scrollTop / LINE) - AROUND);
    const bottom = Math.min(rows.length, Math.ceil((grid.scrollTop + grid.clientHeight) / LINE) + AROUND);
    if (!force && drawn === `${top} ${bottom}`) return;
    drawn = `${top} ${bottom}`;
    body.replaceChildren(...rows.slice(top, bottom).map((row, i) => line_of(row, top + i)));
    if (rows[active]) grid.setAttribute('aria-activedescendant', `line-${rows[active].id}`);
  };
  const update = (filter = true) => {
    rows = sorted_rows(filter ? filtered_rows(data) : rows, sort);
    active = 0;
    grid.scrollTop = 0;
    body.style.height = `${rows.length * LINE}px`;
    grid.setAttribute('aria-rowcount', rows.length + 1);
    status.textContent = rows.length === data.rows.length
        ? counted(rows.length, 'tensor')
        : `${count_text(rows.length)} of ${counted(data.rows.length, 'tensor')}`;
    COLUMNS.forEach(
        (column, i) => titles[i].setAttribute(
            'aria-sort',
            sort.column !== column.id ? 'none'
                : sort.down           ? 'descending'
                                      : 'ascending'));
    draw(true);
  };
  const go_to = (at) => {
    active = Math.max(0, Math.min(rows.length - 1, at));
    const top = active * LINE;
    const height = grid.clientHeight - LINE;
    if (top < grid.scrollTop)
      grid.scrollTop = top;
    else if (top + LINE > grid.scrollTop + height)
      grid.scrollTop = top + LINE - height;
    draw(true);
  };

  let waiting = false;
  grid.addEventListener('scroll', () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw(false);
    });
  });
  grid.addEventListener('click', (event) => {
    const line = event.target.closest('[data-id]');
    if (!line) return;
    active = rows.findIndex((row) => row.id === Number(line.dataset.id));
    open_row(rows[active]);
  });
  grid.addEventListener('keydown', (event) => {
    if (event.target !== grid) return;
    const page = Math.floor(grid.clientHeight / LINE) - 2;
    const keys = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      PageDown: active + page,
      PageUp: active - page,
      Home: 0,
      End: rows.length - 1
    };
    if (event.key in keys)
      go_to(keys[event.key]);
    else if (event.key === 'Enter' && rows[active])
      open_row(rows[active]);
    else
      return;
    event.preventDefault();
  });
  window.addEventListener('resize', () => draw(true));
  on_selection((names, filtered) => {
    if (filtered)
      update();
    else if (names.has('open')) {
      const at = rows.indexOf(selection.open);
      if (at >= 0)
        go_to(at);
      else
        draw(true);
    }
    if (names.has('pass') && passes) passes.value = selection.pass === null ? '' : String(selection.pass);
  });
  update();
  // The neighbours of a row as the table now stands, for the detail's arrows.
  return (row, step) => rows[rows.indexOf(row) + step] || null;
}
