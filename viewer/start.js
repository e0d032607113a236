// Puts the page together. `#t=PASS.TENSOR` in the address opens a tensor, so that a link can point at it.

function row_of_address(data) {
  const found = /^#t=(\d+)\.(\d+)$/.exec(window.location.hash);
  return found ? data.row_at({pass: Number(found[1]), tensor: Number(found[2])}) : null;
}

function follow_address(data) {
  on_selection((names) => {
    if (!names.has('open') || row_of_address(data) === selection.open) return;
    const row = selection.open;
    window.history.replaceState(
        null, '', row ? `#t=${row.pass}.${row.index}` : window.location.pathname + window.location.search);
  });
  const open = () => {
    const row = row_of_address(data);
    if (row && row !== selection.open) open_row(row);
  };
  window.addEventListener('hashchange', open);
  open();
}

async function start() {
  start_theme();
  const report = JSON.parse(find('report').textContent);
  if (report.format === 'ttap-quant') return draw_quant_page(report);
  const data = read_report(report);
  const root = build_tree(data);
  draw_sides(data.report);
  draw_summary(data);
  draw_notes(data.report);
  draw_chips(data);
  draw_module_tree(data, root);
  const neighbour = draw_tensor_table(data);
  draw_runs(data);
  start_tensor_detail(data, neighbour);
  follow_address(data);
  performance.mark('ttap-text');  // what bench/report_page.py measures
  await draw_order_chart(data);
}

start().then(
    () => {
      document.documentElement.dataset.ready = 'yes';
      performance.mark('ttap-ready');
    },
    (error) => {
      find('main').prepend(
          make('p', {class: 'problem', role: 'alert'}, `This report cannot be shown: ${error.message}`));
      throw error;
    });
