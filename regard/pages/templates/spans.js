// Words selected by the user, joined to one row and column: state.spans holds the first and last token of each.
function selectedTokens() {
  const chosen = getSelection();
  if (!chosen || chosen.isCollapsed) return null;
  const words = [...document.querySelectorAll("#text .prose .word[data-tokens]")].filter((word) => chosen.containsNode(word, true));
  const tokens = words.flatMap((word) => word.dataset.tokens.split(",").map(Number));
  return tokens.length > 1 ? [Math.min(...tokens), Math.max(...tokens)] : null;
}
function join() {
  const span = selectedTokens();
  if (!span) {
    $("join-say").textContent = "First select two or more words in the text above.";
    return;
  }
  const apart = (state.spans || []).filter(([first, last]) => last < span[0] || first > span[1]);
  getSelection().removeAllRanges();
  change({ spans: [...apart, span].sort((a, b) => a[0] - b[0]), row: null });
}
const parseSpans = (text) => {
  const found = (text || "").split(".").map((part) => part.split("-").map(Number))
    .filter(([a, b]) => Number.isInteger(a) && Number.isInteger(b) && 0 <= a && a < b && b < look.tokens.length);
  return found.length ? found : null;
};
function showSpans() {
  if (!$("join")) return;
  $("apart").hidden = !state.spans;
  $("join-say").textContent = state.spans ? `${state.spans.length} joined` : "";
}
function watchSpans() {
  $("join")?.addEventListener("pointerdown", (event) => event.preventDefault());  // a click must not clear the selection
  $("join")?.addEventListener("click", join);
  $("apart")?.addEventListener("click", () => change({ spans: null, row: null }));
}
