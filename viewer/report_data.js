// The report as the page uses it: every tensor of every pass as one row of one list, in execution order.

const VERDICTS = [
  {id: 'diverged', color: '--diverged', symbol: 'diamond', glyph: '◆', explain: 'out of tolerance'},
  {id: 'flipped', color: '--inconclusive', symbol: 'diamond-open', glyph: '⇄', explain: 'a choice went the other way at a near tie'},
  {id: 'shape mismatch', color: '--shape', symbol: 'x', glyph: '✖', explain: 'nothing to compare element by element'},
  {
    id: 'inconclusive',
    color: '--inconclusive',
    symbol: 'square',
    glyph: '■',
    explain: 'the bits differ, or one side kept nothing to compare, and there are no bytes to tell how far'
  },
  {id: 'missing', color: '--missing', symbol: 'triangle-down', glyph: '▼', explain: 'only A has it'},
  {id: 'extra', color: '--missing', symbol: 'triangle-up', glyph: '▲', explain: 'only B has it'},
  {id: 'within tolerance', color: '--within', symbol: 'circle', glyph: '●', explain: 'different, and close enough'},
  {id: 'identical', color: '--identical', symbol: 'circle', glyph: '●', explain: 'the same bits'},
];

const CAUSES = {
  introduced: 'its inputs agree and its output does not: the error was made here',
  inherited: 'its inputs differ already',
  unknown: 'there is no evidence about its inputs',
};

function read_report(report) {
  if (report.format !== 'ttap-diff') throw new Error('the data in this page is no report of ttap');
  if (report.version !== 1) throw new Error(`this page shows reports of version 1, not ${report.version}`);
  const rows = [];
  const starts = [];
  (report.passes || []).forEach((pass, number) => {
    starts.push(rows.length);
    pass.tensors.forEach((tensor, index) => {
      rows.push({
        id: rows.length,
        pass: number,
        index,
        tensor,
        verdict: tensor.verdict,
        cause: tensor.cause || '',
        key: String(tensor.key),
        search: null,
        place: 0
      });
    });
  });
  const row_at = (place) => (place ? rows[starts[place.pass] + place.tensor] || null : null);
  const details = new Map();
  for (const detail of report.details || []) {
    const row = row_at(detail);
    if (row) details.set(row.id, detail);
  }
  const introduced = (report.introduced || []).map(row_at).filter(Boolean);
  return {
    report,
    rows,
    row_at,
    details,
    introduced,
    introduced_ids: new Set(introduced.map((row) => row.id)),
    first: row_at(report.first),
    passes: report.passes || []
  };
}

// `name[::callN][@role][/path]` in two: what the module tree is made of, and the rest.
function split_key(key) {
  const end = key.search(/::call\d|[@/]/);
  return end < 0 ? [key, ''] : [key.slice(0, end), key.slice(end)];
}

// Where the tensor stands in the tree of modules. An operator inside a module has a name of its own.
function module_path(tensor) {
  const [name] = split_key(String(tensor.key));
  const parent = tensor.parent ? String(tensor.parent) : '';
  const inside = parent && name !== parent && !name.startsWith(`${parent}.`);
  const dotted = tensor.event_kind && tensor.event_kind !== 'module' && tensor.event_kind !== 'capture';
  if (inside && (dotted || !name.includes('.'))) return [...parent.split('.'), name];
  return name.split('.');
}

// What to call a tensor where there is little room.
function short_name(row) {
  const [name, rest] = split_key(row.key);
  const text = name.split('.').slice(-2).join('.') + rest;
  return text.length > 34 ? `${text.slice(0, 16)}…${text.slice(-16)}` : text;
}
