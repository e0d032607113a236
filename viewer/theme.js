// Light and dark: what the system prefers, until the button says otherwise.

const THEME_KEY = "ttap-theme";
const dark_system = window.matchMedia("(prefers-color-scheme: dark)");
const theme_listeners = [];

function is_dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark_system.matches;
}

function on_theme(listener) {
  theme_listeners.push(listener);
}

function css_color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function start_theme() {
  // A page opened from a file may be denied its storage.
  try {
    const kept = window.localStorage.getItem(THEME_KEY);
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  } catch { /* then it is chosen anew each time */ }
  const changed = () => {
    find("theme").textContent = is_dark() ? "☀ Light" : "☾ Dark";
    theme_listeners.forEach((listener) => listener());
  };
  find("theme").addEventListener("click", () => {
    const next = is_dark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try {
      window.localStorage.setItem(THEME_KEY, next);
    } catch { /* as above */ }
    changed();
  });
  dark_system.addEventListener("change", changed);
  changed();
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
  return `rgb(${mixed.join(",")})`;
}
