// Inputs moved as the package moves them: turned images, D4 and time reversal of frames, rotated points.

/** An image (height, width, channels) turned anticlockwise about its centre, bilinear and zero outside, as veracity's Rotation. */
export function turned(bytes: ArrayLike<number>, [height, width, channels]: number[], degrees: number): Float32Array {
  const [cos, sin] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  const out = new Float32Array(height * width * channels);
  for (let i = 0; i < height; i++) {
    for (let j = 0; j < width; j++) {
      const [x, y] = [j + 0.5 - width / 2, i + 0.5 - height / 2];
      const [column, row] = [cos * x - sin * y + width / 2 - 0.5, sin * x + cos * y + height / 2 - 0.5];
      const [left, top] = [Math.floor(column), Math.floor(row)];
      for (const [r, c] of [[top, left], [top, left + 1], [top + 1, left], [top + 1, left + 1]]) {
        if (r < 0 || c < 0 || r >= height || c >= width) continue;
        const weight = (1 - Math.abs(row - r)) * (1 - Math.abs(column - c));
        for (let k = 0; k < channels; k++) out[(i * width + j) * channels + k] += weight * bytes[(r * width + c) * channels + k];
      }
    }
  }
  return out;
}

/** Where each cell of a square comes from that is mirrored left to right and then turned by quarter turns anticlockwise. */
export function quarterSource(side: number, turns: number, mirrored: boolean): Int32Array {
  return Int32Array.from({ length: side * side }, (_, cell) => {
    let [i, j] = [Math.floor(cell / side), cell % side];
    for (let turn = 0; turn < turns; turn++) [i, j] = [j, side - 1 - i];
    return i * side + (mirrored ? side - 1 - j : j);
  });
}

/** Two frames (2, side, side) under (turn, mirrored, reversed). */
export function movedFrames(frames: ArrayLike<number>, side: number, [turn, mirrored, reversed]: number[]): Float32Array[] {
  const source = quarterSource(side, turn, mirrored === 1);
  const order = reversed === 1 ? [1, 0] : [0, 1];
  return order.map((frame) => Float32Array.from(source, (from) => frames[frame * side * side + from]));
}

/** A field (2, side, side), u right and v down, under (turn, mirrored, reversed): cells move, vectors turn, time changes the sign. */
export function movedField(field: Float32Array, side: number, [turn, mirrored, reversed]: number[]): Float32Array {
  const source = quarterSource(side, turn, mirrored === 1);
  const out = new Float32Array(field.length);
  const sign = reversed === 1 ? -1 : 1;
  source.forEach((from, cell) => {
    let [u, v] = [mirrored === 1 ? -field[from] : field[from], field[side * side + from]];
    for (let k = 0; k < turn; k++) [u, v] = [v, -u];
    out[cell] = sign * u;
    out[side * side + cell] = sign * v;
  });
  return out;
}

/** The axis of rotation at a direction in a plane ("xy", "xz" or "yz"). */
export function axisIn(plane: string, degrees: number): [number, number, number] {
  const axis: [number, number, number] = [0, 0, 0];
  axis["xyz".indexOf(plane[0])] = Math.cos((degrees * Math.PI) / 180);
  axis["xyz".indexOf(plane[1])] = Math.sin((degrees * Math.PI) / 180);
  return axis;
}

/** Points (n, 3) rotated about an axis of length one, right-handed. */
export function rotated(points: ArrayLike<number>, [kx, ky, kz]: [number, number, number], degrees: number): Float32Array {
  const [cos, sin] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  const out = new Float32Array(points.length);
  for (let i = 0; i < points.length; i += 3) {
    const [x, y, z] = [points[i], points[i + 1], points[i + 2]];
    const along = (kx * x + ky * y + kz * z) * (1 - cos);
    out[i] = x * cos + (ky * z - kz * y) * sin + kx * along;
    out[i + 1] = y * cos + (kz * x - kx * z) * sin + ky * along;
    out[i + 2] = z * cos + (kx * y - ky * x) * sin + kz * along;
  }
  return out;
}
