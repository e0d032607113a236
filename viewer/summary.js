// The verdict, what it rests on, and the counts one filters by.

function pill(text, color, title) {
  return make('span', {class: 'pill', style: `--pill: var(${color})`, title}, text);
}

function verdict_pill(verdict) {
  const known = VERDICTS.find((entry) => entry.id === verdict);
  return pill(verdict, known ? known.color : '--muted', known ? known.explain : null);
}

function verdict_glyph(verdict) {
  return make('span', {class: 'glyph', style: `color: var(${verdict.color})`, 'aria-hidden': 'true'}, verdict.glyph);
}

function cause_pill(cause) {
  if (!cause) return null;
  return make('span', {class: `cause cause-${cause}`, title: CAUSES[cause] || null}, cause);
}

// Which pass a row is of, where there are several.
function pass_text(row, data) {
  return data.passes.length > 1 ? ` in ${data.passes[row.pass].a}` : '';
}

function row_link(row, text = row.key, attributes = {}) {
  return button(breakable(text), () => open_row(row), {class: 'link mono', ...attributes});
}

function draw_sides(report) {
  const side = (letter, run) => make(
      'span', {class: 'side', title: run && run.path}, make('b', {}, letter), ' ',
      make('span', {class: 'mono'}, (run && run.path) || '?'));
  append(find('sides'), [side('A', report.a), side('B', report.b)]);
}

function draw_summary(data) {
  const {report, first} = data;
  const diverged = report.verdict === 'diverged' || report.verdict === 'shape mismatch';
  const sure = report.verdict === 'identical' || report.verdict === 'within tolerance';
  const tone = diverged ? '--diverged' : sure ? '--within' : '--inconclusive';
  const box = make(
      'div', {class: 'verdict', style: `--tone: var(${tone})`},
      make('p', {class: 'eyebrow'}, verdict_pill(report.verdict || 'unknown')),
      make('h1', {id: 'sentence'}, breakable(report.sentence || 'No verdict was given.')));
  if (first) {
    const {reason} = first.tensor;
    box.append(make(
        'div', {class: 'first', id: 'first'},
        make(
            'div', {class: 'first-head'}, make('span', {class: 'label'}, 'first divergence'),
            row_link(first, first.key, {class: 'link mono first-key'}), cause_pill(first.cause),
            data.passes.length > 1 && make('span', {class: 'hint'}, data.passes[first.pass].a)),
        reason ? make('p', {class: 'reason'}, breakable(reason)) : null));
  }
  // The reason stands above them already.
  const lines = (report.evidence || []).filter((line) => !first || line !== first.tensor.reason);
  if (lines.length)
    box.append(make('ul', {class: 'evidence', id: 'evidence'}, lines.map((line) => make('li', {}, breakable(line)))));
  const others = data.introduced.filter((row) => row !== first);
  if (others.length) {
    box.append(make(
        'div', {class: 'others', id: 'others'}, make('span', {class: 'label'}, 'also introduced'),
        others.slice(0, 6).map((row) => row_link(row, row.key + pass_text(row, data))),
        others.length > 6 &&
            button(`all ${count_text(data.introduced.length)}`, () => select({introduced: true}), {class: 'link'})));
  }
  find('summary').append(box);
}

// What is not whole about this page, before anyone relies on it.
function draw_notes(report) {
  const note = (title, lines, kind) => lines && lines.length > 0 &&
      make('div', {class: `note ${kind}`, id: kind}, make('b', {}, title),
           make('ul', {}, lines.map((line) => make('li', {}, line))));
  append(
      find('notes'),
      [note('Warnings', report.warnings, 'warnings'), note('Left out of this page', report.thinned, 'thinned')]);
}

function draw_chips(data) {
  const box = make('div', {class: 'chips', role: 'group', 'aria-label': 'Show only these verdicts'});
  const counts = data.report.counts || {};
  const chips = VERDICTS.map((verdict) => {
    const count = counts[verdict.id] || 0;
    const toggle = () => {
      const verdicts = new Set(selection.verdicts);
      if (!verdicts.delete(verdict.id)) verdicts.add(verdict.id);
      select({verdicts});
    };
    return {
      chip: button([verdict_glyph(verdict), make('b', {}, count_text(count)), ` ${verdict.id}`], toggle, {
        class: 'chip',
        style: `--pill: var(${verdict.color})`,
        title: verdict.explain,
        'data-verdict': verdict.id,
        disabled: !count
      }),
      pressed: () => selection.verdicts.has(verdict.id)
    };
  });
  chips.push({
    chip: button(
        [make('span', {class: 'glyph'}, '◯'), make('b', {}, count_text(data.introduced.length)), ' introduced'],
        () => select({introduced: !selection.introduced}), {
          class: 'chip chip-introduced',
          title: CAUSES.introduced,
          'data-verdict': 'introduced',
          disabled: !data.introduced.length
        }),
    pressed: () => selection.introduced
  });
  const reset = button(
      'clear filters', () => select({verdicts: new Set(), introduced: false, pass: null, under: null, search: ''}),
      {class: 'link', id: 'clear'});
  const under =
      button('', () => select({under: null}), {class: 'chip under', id: 'under', title: 'take this filter away'});
  append(box, [chips.map(({chip}) => chip), under, reset]);
  find('filters').append(box);
  const update = () => {
    for (const {chip, pressed} of chips) chip.setAttribute('aria-pressed', String(pressed()));
    under.hidden = !selection.under;
    under.replaceChildren('below ', make('span', {class: 'mono'}, selection.under ? selection.under.path : ''), ' ✕');
    reset.hidden = !is_filtered();
  };
  on_selection((_, filtered) => filtered && update());
  update();
}
