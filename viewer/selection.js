// What is being looked at: filters, measure and the open tensor, in one place; whoever shows any of it listens.

const selection = {
  measure: 'relative',
  verdicts: new Set(),  // empty: all
  introduced: false,    // those only
  pass: null,           // null: all
  under: null,          // a node of the module tree
  search: '',
  open: null,  // a row
};
const selection_listeners = [];

function on_selection(listener) {
  selection_listeners.push(listener);
}

function select(changes) {
  Object.assign(selection, changes);
  const names = new Set(Object.keys(changes));
  const filtered = ['verdicts', 'introduced', 'pass', 'under', 'search'].some((name) => names.has(name));
  selection_listeners.forEach((listener) => listener(names, filtered));
}

function open_row(row) {
  select({open: row});
}

// A search text as a test of names: /regex/ with flags, or a part of the name in any case; null for a wrong regex.
function search_test(text) {
  const regex = /^\/(.+)\/([a-z]*)$/s.exec(text);
  if (regex) {
    try {
      const compiled = new RegExp(regex[1], regex[2].replace(/[gy]/g, ''));
      return (row) => compiled.test(row.key) || (row.tensor.key_b ? compiled.test(row.tensor.key_b) : false);
    } catch {
      return null;
    }
  }
  const part = text.toLowerCase();
  return (row) => {
    row.search ??= `${row.key}\n${row.tensor.key_b || ''}`.toLowerCase();
    return row.search.includes(part);
  };
}

function filtered_rows(data) {
  const {verdicts, introduced, pass, under, search} = selection;
  const matches = search ? search_test(search) : null;
  return data.rows.filter(
      (row) => (!verdicts.size || verdicts.has(row.verdict)) && (!introduced || data.introduced_ids.has(row.id)) &&
          (pass === null || row.pass === pass) && (!under || (row.place >= under.first && row.place < under.end)) &&
          (!matches || matches(row)));
}

function is_filtered() {
  const {verdicts, introduced, pass, under, search} = selection;
  return Boolean(verdicts.size || introduced || pass !== null || under || search);
}
