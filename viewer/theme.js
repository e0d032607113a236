// Light and dark: what the system prefers, until the button says otherwise.

const THEME_KEY = 'ttap-theme';
const theme_listeners = [];

// The head of the page has asked the system already, before anything is drawn.
function is_dark() {
  return document.documentElement.dataset.theme === 'dark';
}

function on_theme(listener) {
  theme_listeners.push(listener);
}

function css_color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A page opened from a file may be denied its storage; the choice then lasts as long as the page.
function kept_theme() {
  try {
    return window.localStorage.getItem(THEME_KEY);
  } catch {
    return null;
  }
}

function keep_theme(theme) {
  try {
    window.localStorage.setItem(THEME_KEY, theme);
  } catch {
    // as above
  }
}

function start_theme() {
  let chosen = kept_theme();
  const set = (theme) => {
    document.documentElement.dataset.theme = theme;
    find('theme').textContent = is_dark() ? '☀ Light' : '☾ Dark';
    theme_listeners.forEach((listener) => listener());
  };
  find('theme').addEventListener('click', () => {
    chosen = is_dark() ? 'light' : 'dark';
    keep_theme(chosen);
    set(chosen);
  });
  const system = window.matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', () => chosen || set(system.matches ? 'dark' : 'light'));
  set(chosen === 'dark' || chosen === 'light' ? chosen : document.documentElement.dataset.theme);
}

// Errors from small to large. One hue whose lightness only rises (or, on dark, falls) reads the same to every eye.
const LIGHT_SCALE = [[237, 241, 244], [253, 224, 190], [246, 170, 100], [208, 98, 22], [117, 40, 6]];
const DARK_SCALE = [[44, 52, 60], [104, 58, 28], [184, 92, 30], [244, 150, 74], [255, 226, 188]];

function scale_stops() {
  return is_dark() ? DARK_SCALE : LIGHT_SCALE;
}

// The colour at `share` in 0 … 1.
function scale_color(share) {
  const stops = scale_stops();
  const at = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const below = Math.min(stops.length - 2, Math.floor(at));
  const mixed = stops[below].map((low, i) => Math.round(low + (at - below) * (stops[below + 1][i] - low)));
  return `rgb(${mixed.join(',')})`;
}
