// The tree of modules, made from dotted names. A node shows the largest error of all that lies below it.

const MOST_CHILDREN = 200;  // of a node, before a button for more
const MOST_UNFOLDED = 12;   // introduced errors that the tree is opened for

function new_node(name, path, parent) {
  return {
    name,
    path,
    parent,
    children: new Map(),
    rows: [],
    first: 0,
    end: 0,
    differing: 0,
    introduced: 0,
    worst: null,
    open: false,
    element: null
  };
}

function build_tree(data) {
  const root = new_node('', '', null);
  for (const row of data.rows) {
    let node = root;
    for (const step of module_path(row.tensor)) {
      let child = node.children.get(step);
      if (!child) {
        child = new_node(step, node.path ? `${node.path}.${step}` : step, node);
        node.children.set(step, child);
      }
      node = child;
    }
    node.rows.push(row);
    row.node = node;
  }
  // Depth first, without recursion: what lies below a node is one interval of places.
  let place = 0;
  const stack = [[root, false]];
  while (stack.length) {
    const [node, done] = stack.pop();
    if (done) {
      node.end = place;
      for (const child of node.children.values()) {
        node.differing += child.differing;
        node.introduced += child.introduced;
      }
      for (const row of node.rows) {
        if (['diverged', 'inconclusive', 'shape mismatch'].includes(row.verdict)) ++node.differing;
        if (data.introduced_ids.has(row.id)) ++node.introduced;
      }
      continue;
    }
    node.first = place;
    for (const row of node.rows) row.place = place++;
    stack.push([node, true]);
    for (const child of [...node.children.values()].reverse()) stack.push([child, false]);
  }
  return root;
}

// The largest error by the chosen measure, for every node; and the range over all of them.
function measure_tree(root, data) {
  const range = {low: Infinity, high: 0};
  const clear = [root];
  while (clear.length) {
    const node = clear.pop();
    node.worst = null;
    for (const child of node.children.values()) clear.push(child);
  }
  for (const row of data.rows) {
    const error = error_of(row.tensor, selection.measure);
    if (error === null) continue;
    if (error > 0 && Number.isFinite(error)) {
      range.low = Math.min(range.low, error);
      range.high = Math.max(range.high, error);
    }
    for (let {node} = row; node && (node.worst === null || node.worst < error); node = node.parent) node.worst = error;
  }
  return range;
}

function error_share(error, range) {
  if (!error) return 0;
  if (!Number.isFinite(error)) return 1;
  if (!(range.low < range.high)) return 1;
  return 0.08 + 0.92 * (Math.log(error / range.low) / Math.log(range.high / range.low));
}

// A module that holds one module and nothing else needs no line of its own.
function without_chain(node) {
  let end = node;
  let label = node.name;
  while (end.children.size === 1 && !end.rows.length) {
    [end] = end.children.values();
    label += `.${end.name}`;
  }
  return {end, label};
}

function draw_module_tree(data, root) {
  const box = find('tree');
  let range = measure_tree(root, data);
  const list = make('ul', {role: 'tree', 'aria-labelledby': 'tree-title', class: 'tree'});
  box.append(list);

  const swatch = (error) => {
    const known = error !== null;
    return make('span', {
      class: known ? 'swatch' : 'swatch unknown',
      style: known ? `background:${scale_color(error_share(error, range))}` : null
    });
  };
  const error_text = (error) => (error === null ? '–' : error === 0 ? 'equal' : number_text(error, 2));
  const mark = (introduced) => introduced > 0 &&
      make('span',
           {
             class: 'mark',
             title: introduced === 1 ? 'an error was introduced here' : `${introduced} errors were introduced below`
           },
           '◉');

  const row_item = (row, level, label) => {
    const item = make(
        'li', {role: 'treeitem', 'aria-level': level, tabindex: -1},
        make(
            'div', {class: 'tree-row', style: `--level:${level}`, title: row.key}, make('span', {class: 'caret'}),
            swatch(error_of(row.tensor, selection.measure)), make('span', {class: 'mono tree-name'}, label),
            mark(data.introduced_ids.has(row.id) ? 1 : 0),
            make('span', {class: 'tree-error'}, error_text(error_of(row.tensor, selection.measure)))));
    item.activate = () => open_row(row);
    return item;
  };

  const node_item = (node, level) => {
    const {end, label} = without_chain(node);
    if (!end.children.size && end.rows.length === 1)
      return row_item(end.rows[0], level, label + split_key(end.rows[0].key)[1] + pass_text(end.rows[0], data));
    const caret = make('span', {class: 'caret', 'aria-hidden': 'true'}, '▸');
    const group = make('ul', {role: 'group', hidden: true});
    const total = end.end - end.first;
    const item = make(
        'li', {role: 'treeitem', 'aria-level': level, 'aria-expanded': 'false', tabindex: -1, 'data-path': end.path},
        make(
            'div', {
              class: 'tree-row',
              style: `--level:${level}`,
              title: `${end.path}: ${counted(end.differing, 'tensor')} of ${count_text(total)} differ`
            },
            caret, swatch(end.worst), make('span', {class: 'mono tree-name'}, label), mark(end.introduced),
            make(
                'span', {class: 'tree-count'}, end.differing ? make('b', {}, count_text(end.differing)) : null,
                `${end.differing ? '/' : ''}${count_text(total)}`),
            make('span', {class: 'tree-error'}, error_text(end.worst))),
        group);
    item.fold = (open) => {
      end.open = open;
      if (open && !group.childElementCount) {
        grow(
            group, [...end.rows, ...end.children.values()], MOST_CHILDREN,
            (entry) =>
                (entry.tensor
                     ? row_item(entry, level + 1, (split_key(entry.key)[1] || 'output') + pass_text(entry, data))
                     : node_item(entry, level + 1)));
      }
      group.hidden = !open;
      item.setAttribute('aria-expanded', String(open));
    };
    item.folds = () => end.open;
    item.activate = () => select({under: selection.under === end ? null : end});
    end.element = item;
    if (end.open) item.fold(true);
    return item;
  };

  const draw = () => {
    range = measure_tree(root, data);
    list.replaceChildren();
    grow(list, [...root.children.values()], MOST_CHILDREN, (node) => node_item(node, 1));
    const first = list.querySelector('[role=treeitem]');
    if (first) first.tabIndex = 0;
    if (selection.under && selection.under.element) selection.under.element.classList.add('chosen');
    draw_tree_legend(range);
  };

  // Opened down to where errors were made; everything else stays folded.
  const marked = data.introduced.length ? data.introduced : data.first ? [data.first] : [];
  for (const row of marked.slice(0, MOST_UNFOLDED)) {
    const alone =
        row.node.rows.length === 1 && !row.node.children.size;  // such a node is a line, and has none below it
    for (let node = alone ? row.node.parent : row.node; node; node = node.parent) node.open = true;
  }
  if (root.children.size === 1) without_chain(root.children.values().next().value).end.open = true;
  const fold_all = () => {
    const stack = [root];
    while (stack.length) {
      const node = stack.pop();
      node.open = false;
      for (const child of node.children.values()) stack.push(child);
    }
    draw();
  };
  find('tree-tools').append(button('fold all', fold_all, {class: 'quiet', id: 'fold'}));
  draw();
  follow_tree(list);
  on_selection((names) => {
    if (names.has('measure')) draw();
    if (names.has('under')) {
      list.querySelectorAll('.chosen').forEach((item) => item.classList.remove('chosen'));
      if (selection.under && selection.under.element) selection.under.element.classList.add('chosen');
    }
  });
  on_theme(draw);
}

function draw_tree_legend(range) {
  const legend = find('tree-legend');
  if (!(range.high > 0)) {
    legend.replaceChildren();
    return;
  }
  const steps = [0, 0.25, 0.5, 0.75, 1].map((share) => scale_color(share)).join(',');
  legend.replaceChildren(
      make('span', {}, number_text(range.low, 1)),
      make('span', {class: 'ramp', style: `background:linear-gradient(90deg,${steps})`}),
      make('span', {}, number_text(range.high, 2)), make('span', {class: 'hint'}, 'largest error below'));
}

// Mouse and keys, as trees are used everywhere.
function follow_tree(list) {
  const visible =
      () => [...list.querySelectorAll('[role=treeitem]')].filter((item) => !item.closest('[role=group][hidden]'));
  const focus = (item) => {
    if (!item) return;
    list.querySelectorAll('[role=treeitem][tabindex=\'0\']').forEach((other) => {
      other.tabIndex = -1;
    });
    item.tabIndex = 0;
    item.focus();
  };
  list.addEventListener('click', (event) => {
    const item = event.target.closest('[role=treeitem]');
    if (!item || event.target.closest('.more')) return;
    focus(item);
    if (item.fold && event.target.closest('.caret'))
      item.fold(!item.folds());
    else {
      if (item.fold && !item.folds()) item.fold(true);
      item.activate();
    }
  });
  list.addEventListener('keydown', (event) => {
    const item = event.target.closest('[role=treeitem]');
    if (!item || event.target.closest('button')) return;
    const items = visible();
    const at = items.indexOf(item);
    const keys = {
      ArrowDown: () => focus(items[at + 1]),
      ArrowUp: () => focus(items[at - 1]),
      Home: () => focus(items[0]),
      End: () => focus(items[items.length - 1]),
      ArrowRight: () => (item.fold && !item.folds() ? item.fold(true) : focus(items[at + 1])),
      ArrowLeft: () =>
          (item.fold && item.folds() ? item.fold(false) : focus(item.parentElement.closest('[role=treeitem]'))),
      Enter: () => item.activate(),
      ' ': () => item.activate(),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
}
