// Plotly, in the page's colours. It stands at the end of the page so that the text is there before it is parsed.

const plotly_ready = new Promise((resolve, reject) => {
  const settle = () => (window.Plotly ? resolve(window.Plotly) : reject(new Error('Plotly is not in this page')));
  if (window.Plotly)
    resolve(window.Plotly);
  else
    document.addEventListener('DOMContentLoaded', settle);
});

const PLOT_CONFIG = {
  responsive: true,
  displaylogo: false,
  displayModeBar: 'hover',
  modeBarButtons: [['toImage', 'zoom2d', 'pan2d', 'resetScale2d']],  // none that leaves the page
};

// Plotly reads a little HTML in its texts; names are to be shown as they are.
function plot_text(text) {
  return String(text).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
}

function plot_axis(title, more = {}) {
  return {
    title: {text: title, standoff: 8, font: {size: 12}},
    gridcolor: css_color('--line'),
    linecolor: css_color('--line'),
    zeroline: false,
    tickcolor: css_color('--line'),
    automargin: true,
    ...more,
  };
}

function plot_layout(more = {}) {
  const ink = css_color('--ink');
  return {
    paper_bgcolor: 'rgba(0,0,0,0)',
    plot_bgcolor: 'rgba(0,0,0,0)',
    font: {family: 'system-ui, sans-serif', size: 12, color: css_color('--soft')},
    hoverlabel: {
      bgcolor: css_color('--card'),
      bordercolor: css_color('--line-strong'),
      font: {color: ink, family: 'system-ui, sans-serif', size: 12},
      align: 'left'
    },
    modebar: {bgcolor: 'rgba(0,0,0,0)', color: css_color('--muted'), activecolor: css_color('--accent')},
    margin: {l: 56, r: 16, t: 12, b: 44},
    // A finger that scrolls the page must not zoom the chart.
    dragmode: window.matchMedia('(pointer: coarse)').matches ? false : 'zoom',
    ...more,
  };
}

let webgl = null;
function has_webgl() {
  if (webgl === null) {
    try {
      webgl = Boolean(document.createElement('canvas').getContext('webgl'));
    } catch {
      webgl = false;
    }
  }
  return webgl;
}

// Few points are sharper as SVG; many need WebGL, where there is one.
function scatter_type(points) {
  return points > 1500 && has_webgl() ? 'scattergl' : 'scatter';
}

function plot_scale() {
  const stops = scale_stops();
  return stops.map((color, i) => [i / (stops.length - 1), `rgb(${color.join(',')})`]);
}
