// A map over an image: dark without attention, orange where it is highest.
const DARK = 0.72, WARM = 0.4, HUE = [255, 150, 20];
function veil(canvas, rows, columns, map) {
  canvas.width = columns;
  canvas.height = rows;
  const pen = canvas.getContext("2d"), image = pen.createImageData(columns, rows);
  let peak = 0;
  for (const weight of map) peak = Math.max(peak, weight);
  for (let i = 0; i < rows * columns; i++) {
    const share = map[i] / (peak || 1), warm = WARM * share, whole = DARK * (1 - share) + warm;
    HUE.forEach((part, k) => { image.data[4 * i + k] = Math.round(part * warm / whole); });
    image.data[4 * i + 3] = Math.round(255 * whole);
  }
  pen.putImageData(image, 0, 0);
}
function over(img, rows, columns, map, side) {
  const sheet = document.createElement("canvas"), small = document.createElement("canvas");
  sheet.width = sheet.height = side;
  const pen = sheet.getContext("2d");
  pen.fillStyle = "#ffffff";
  pen.fillRect(0, 0, side, side);
  if (img) pen.drawImage(img, 0, 0, side, side);
  veil(small, rows, columns, map);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, 0, 0, side, side);
  return sheet;
}
