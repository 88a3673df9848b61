// Shared by all parts: the data, number formatting, and the colors of the current scheme.
const look = JSON.parse(document.getElementById("look").textContent);
const $ = (id) => document.getElementById(id);
const number = (value) => (value === 0 ? "0" : Math.abs(value) < 1e-4 ? value.toExponential(2) : value.toPrecision(4)).replace("-", "−");

const darkScreen = matchMedia("screen and (prefers-color-scheme: dark)");
let printing = false;
const isDark = () => darkScreen.matches && !printing;

// Three stops of one hue with monotonic lightness.
const STOPS = {
  light: [[253, 250, 245], [226, 122, 20], [84, 34, 0]],
  dark: [[28, 30, 34], [186, 96, 8], [255, 222, 170]],
};
// For differences: blue to background to orange, safe for color-blind readers.
const SIDES = {
  light: [[16, 60, 120], [250, 248, 244], [150, 68, 0]],
  dark: [[130, 185, 250], [30, 32, 36], [250, 170, 80]],
};
const divergingRamp = () => ramp(SIDES);
function ramp(stops = STOPS) {
  const [low, middle, high] = stops[isDark() ? "dark" : "light"];
  const table = new Uint8ClampedArray(256 * 3);
  for (let i = 0; i < 256; i++) {
    const t = i / 255;
    const [from, to, u] = t < 0.5 ? [low, middle, t * 2] : [middle, high, t * 2 - 1];
    for (let c = 0; c < 3; c++) table[3 * i + c] = from[c] + (to[c] - from[c]) * u;
  }
  return table;
}
const css = (rgb) => `rgb(${rgb.join(" ")})`;
const colors = () => (isDark()
  ? { paper: "#16171a", ink: "#e9e6e0", soft: "#a09a90", rule: "#34353a" }
  : { paper: "#fdfcfa", ink: "#1e1c19", soft: "#67625a", rule: "#dfdad1" });
