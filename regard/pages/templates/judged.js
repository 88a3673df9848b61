// Beside each picture of heads: is it faithful? Measured for every head, and for the mean and the largest of all of them.
const FAITHFUL = ["comprehensiveness", "sufficiency"];
const passes = (found, names) => Boolean(found) && names.every((name) => found.rows.some((r) => r.measure === name && r.better_than >= GOOD));
const judgedOf = (site, mode, head) => {
  const found = look.maps[site].judged;
  return found ? (mode === "single" ? (found.single || [])[head] : found[mode] || (found.single || [])[0]) : null;
};
// Why there are no figures, where there are none.
function unjudged({ site, mode, heads, diff }) {
  const map = look.maps[site], owner = ownerOf(site);
  if (diff) return "A difference explains neither run: look at one of them for its figures.";
  if (mode !== "single" && heads && heads.length < map.shape[0]) {
    return "Measured for each head by itself and for all heads of a site together, not for these few.";
  }
  if (!look.maps.some((m) => m.judged && Boolean(m.side) === Boolean(map.side))) {
    return "Not measured. The picture shows where the model read, which need not be why it decided.";
  }
  const over = gridOf(site) || Array.isArray((owner.axes || {})[map.columns]) || ["tokens", "sentences"].includes(map.columns);
  return over ? "Not measured." : "What is regarded here was written by the model itself, and cannot be taken away to see whether it matters.";
}
function showJudged(state) {
  const box = $("judged"), { site, mode, head, heads, diff } = state;
  const partial = mode !== "single" && heads && heads.length < look.maps[site].shape[0];
  const found = diff || partial ? null : judgedOf(site, mode, head);
  box.querySelector(".verdict").textContent = found ? found.sentence : unjudged(state);
  fillMeasures(box.querySelector("table"), found ? found.rows : []);
  box.querySelector("table").hidden = !(found && found.rows.length);
  const by = (ownerOf(site).judged_by || look.judged_by || "");
  const cost = found && !found.rows.some((r) => FAITHFUL.includes(r.measure)) && found.rows.length
    ? " Nothing was taken away for this head alone: the model is large, and it would take long." : "";
  box.querySelector(".how").textContent = found ? `Judged by ${by}, as an explanation of ${look.asked || "the answer"}.${cost}` : "";
}
// How many heads of all, beside their small pictures.
function tellBelieved() {
  let all = 0, good = 0;
  look.maps.forEach((map, site) => {
    if (map.rollout || map.side || !map.judged) return;
    for (const [head, found] of map.judged.single.entries()) {
      if (!found.rows.some((r) => FAITHFUL.includes(r.measure))) continue;
      all++;
      if (!passes(found, FAITHFUL)) continue;
      good++;
      const button = thumb(site, head);
      button.classList.add("believed");
      button.dataset.tip += "\na faithful picture";
    }
  });
  const out = $("believed");
  out.hidden = !all;
  out.textContent = `${good} of ${all} ${all === 1 ? "picture is" : "pictures are"} faithful on this ${cells ? "picture" : "text"} by both comprehensiveness and sufficiency` +
    (good ? ", and marked with a dot." : ".");
}
