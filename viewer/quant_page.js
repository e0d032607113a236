// The page of `ttap check --quant`: which tensors would suffer in which format, the worst first.

const QUANT_COLUMNS = [
  ['SQNR', 'error', (recipe) => sqnr_text(recipe.sqnr_db), 'signal to quantization noise'],
  ['mse', '', (recipe) => number_text(recipe.mse), 'mean squared error'],
  ['underflow', 'underflow', (recipe) => percent_text(recipe.underflow_percent), 'not zero before, zero after'],
  ['overflow', 'overflow', (recipe) => percent_text(recipe.overflow_percent), 'beyond the largest code of its block'],
  ['scale min', '', (recipe) => number_text(recipe.scale_min), 'decoded'],
  ['scale max', '', (recipe) => number_text(recipe.scale_max), 'decoded'],
  ['range', '', (recipe) => range_text(recipe.dynamic_range), 'the largest by the smallest magnitude, of the tensor'],
  ['in a block', '', (recipe) => range_text(recipe.block_dynamic_range), 'the largest of a block\'s own'],
];

function quant_sentence(report) {
  if (!report.judged) return 'There was nothing to quantize.';
  if (!report.suffering) return `None of ${counted(report.judged, 'tensor')} suffers.`;
  const worst = report.found[0];
  return `${count_text(report.suffering)} of ${counted(report.judged, 'tensor')} ${
      report.suffering === 1 ? 'suffers' : 'suffer'}; ${worst.key} ${worst.words}.`;
}

// How the run fares in each recipe.
function quant_recipes(report) {
  const line = (recipe) => {
    const known = (decibels) => decibels === null ? '–' : sqnr_text(decibels);
    return make(
        'tr', {}, make('th', {scope: 'row', class: 'mono'}, recipe.recipe),
        make(
            'td', {class: recipe.suffering ? 'strong' : ''},
            `${count_text(recipe.suffering)} of ${count_text(recipe.judged)}`),
        make('td', {}, sqnr_text(recipe.usual_sqnr_db)), make('td', {}, known(recipe.median_sqnr_db)),
        make('td', {}, known(recipe.lowest_sqnr_db)));
  };
  return make(
      'table', {class: 'plain', id: 'recipes'},
      make(
          'thead', {},
          make(
              'tr', {},
              ['format', 'suffer', 'usual', 'median', 'lowest'].map((title) => make('th', {scope: 'col'}, title)))),
      make('tbody', {}, report.quant.map(line)));
}

function quant_tensor(tensor, open) {
  const {recipes} = tensor;
  const name = tensor.picture ? button(tensor.key, () => open(tensor), {class: 'link mono'}) : tensor.key;
  const head = make(
      'th', {class: 'words', scope: 'rowgroup', rowspan: recipes.length}, make('div', {class: 'mono key-cell'}, name),
      make(
          'div', {class: 'hint'},
          `${tensor.dtype} ${shape_text(tensor.shape)}, pass ${tensor.pass} of rank ${tensor.rank}`),
      make('div', {class: 'sentence'}, tensor.words));
  return make(
      'tbody', {class: 'tensor', 'data-key': tensor.key},
      recipes.map(
          (recipe, i) => make(
              'tr', {}, i === 0 && head,
              make(
                  'td', {class: `recipe mono${recipe.harm ? ' harmed' : ''}`},
                  recipe.recipe + (recipe.in_use ? ' (in use)' : '')),
              QUANT_COLUMNS.map(
                  ([, harm, text]) =>
                      make('td', {class: harm && recipe.harm === harm ? 'harmed' : ''}, text(recipe))))));
}

function draw_quant_page(report) {
  if (report.version !== 1) throw new Error(`this page shows reports of version 1, not ${report.version}`);
  document.querySelector('.brand span').textContent = 'check --quant';
  append(find('sides'), [make('div', {class: 'side mono', title: report.path}, report.path)]);
  const main = find('main');
  const pictures = make('section', {class: 'card', id: 'pictures', hidden: true, tabindex: -1});
  let drawn = [];
  const draw = () => drawn.forEach((section) => section.draw());
  const open = (tensor) => {
    drawn = quant_sections(tensor.picture);
    const close = button('✕', () => {
      pictures.hidden = true;
    }, {class: 'quiet', 'aria-label': 'close'});
    pictures.replaceChildren();
    append(pictures, [
      make('div', {class: 'card-head'}, make('h2', {class: 'mono', id: 'picture-key'}, breakable(tensor.key)), close),
      make('div', {class: 'pictures'}, drawn.map((section) => section.part)),
    ]);
    pictures.hidden = false;
    pictures.scrollIntoView({block: 'start'});
    draw();
  };
  on_theme(draw);

  const table = make(
      'table', {class: 'ranked', id: 'ranked'},
      make(
          'thead', {},
          make(
              'tr', {}, make('th', {scope: 'col', class: 'words'}, 'tensor'),
              make('th', {scope: 'col', class: 'recipe'}, 'format'),
              QUANT_COLUMNS.map(([title, , , explain]) => make('th', {scope: 'col', title: explain}, title)))));
  const search = make('input', {type: 'search', id: 'search', placeholder: 'name', 'aria-label': 'Search by name'});
  const only = make('span');
  let suffering = false;
  const MOST = 200;
  const fill = () => {
    const wanted = report.found.filter(
        (tensor) => (!suffering || tensor.suffers) && tensor.key.toLowerCase().includes(search.value.toLowerCase()));
    table.querySelectorAll('tbody').forEach((body) => body.remove());
    append(table, wanted.slice(0, MOST).map((tensor) => quant_tensor(tensor, open)));
    find('shown').textContent = wanted.length > MOST ? `the worst ${MOST} of ${counted(wanted.length, 'tensor')}`
                                                     : `${counted(wanted.length, 'tensor')}`;
  };
  append(only, [checkbox('only what suffers', false, (on) => {
           suffering = on;
           fill();
         }, {id: 'suffering'})]);
  search.addEventListener('input', fill);
  const unjudged = report.unjudged.length + report.not_listed.unjudged;
  main.replaceChildren();
  append(main, [
    make(
        'section', {class: 'verdict', style: `--tone: var(${report.suffering ? '--diverged' : '--within'})`},
        make('h1', {id: 'sentence'}, quant_sentence(report))),
    make('section', {class: 'card', style: 'margin-top: 16px'}, quant_recipes(report)),
    pictures,
    make(
        'section', {class: 'card', style: 'margin-top: 16px'},
        make(
            'div', {class: 'card-head'}, make('h2', {}, 'Tensors, the worst first'),
            make('div', {class: 'tools'}, only, search, make('span', {id: 'shown', class: 'hint'}))),
        make('div', {class: 'scroll'}, table)),
    report.not_listed.found ? make(
                                  'section', {class: 'note', id: 'not-listed'},
                                  `Listed are the ${count_text(report.found.length)} worst tensors. ` +
                                      `${count_text(report.not_listed.found)} that fare better are only counted; ` +
                                      'ttap check --quant --json has all of them.')
                            : null,
    report.unjudged.length ? make(
                                 'section', {class: 'note', id: 'unjudged'},
                                 make('span', {}, `${counted(unjudged, 'tensor')} could not be judged:`),
                                 grow(
                                     make('ul'), report.unjudged, 20,
                                     (trouble) => make('li', {}, `${trouble.key}: ${trouble.error.message}`)))
                           : null,
  ]);
  fill();
}
