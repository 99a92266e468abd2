"use strict";
// Draws the surfaces of a page and turns them: quads from the farthest to the nearest.
(() => {
  const turns = {}; // by the canvas' name: how it was turned, kept when the page is refreshed
  const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

  // Room for words at the sides, above and below.
  const ROOM = { side: 56, top: 30, bottom: 44 };

  // How a point of the box is seen: right, down, and how near.
  const view = (turn, half, width, height) => {
    const [sin, cos] = [Math.sin(turn.around), Math.cos(turn.around)];
    const [up, flat] = [Math.sin(turn.above), Math.cos(turn.above)];
    // In units of the box, seen from eight units away.
    const seen = (right, away, high) => {
      const near = high * up - away * flat;
      const scale = 8 / (8 - near);
      return [right * scale, -(high * flat + away * up) * scale, near];
    };
    // As large as has room however it is turned: a box turns in a cylinder.
    const far = Math.hypot(half[0], half[1]);
    const rim = [];
    for (let i = 0; i < 48; i++) {
      const angle = i * Math.PI / 24;
      for (const high of [-0.55, 0.55]) rim.push(seen(far * Math.cos(angle), far * Math.sin(angle), high));
    }
    const reach = (part) => [Math.min(...rim.map((p) => p[part])), Math.max(...rim.map((p) => p[part]))];
    const [[left, right], [top, bottom]] = [reach(0), reach(1)];
    const size = Math.min((width - 2 * ROOM.side) / (right - left), (height - ROOM.top - ROOM.bottom) / (bottom - top));
    const x0 = width / 2;
    const y0 = ROOM.top + (height - ROOM.top - ROOM.bottom - size * (bottom - top)) / 2 - size * top;
    return ([x, y, z]) => {
      const point = seen(x * cos - y * sin, x * sin + y * cos, (z - 0.5) * 1.1);
      return [x0 + size * point[0], y0 + size * point[1], point[2]];
    };
  };

  // The quads between four neighbours, lit from the left above the viewer.
  const quads = (data, see, list) => {
    const [columns, rows, heights] = [data.columns, data.rows, data.heights];
    const at = (r, c) => [columns[c], rows[r], heights[r * columns.length + c]];
    for (let r = 0; r + 1 < rows.length; r++) {
      for (let c = 0; c + 1 < columns.length; c++) {
        const corners = [at(r, c), at(r, c + 1), at(r + 1, c + 1), at(r + 1, c)];
        if (corners.some((corner) => corner[2] === null)) continue;
        const z = corners.map((corner) => corner[2]);
        const slope = (z[1] + z[2] - z[0] - z[3]) / 2 / (corners[1][0] - corners[0][0]);
        const rise = (z[2] + z[3] - z[0] - z[1]) / 2 / (corners[3][1] - corners[0][1]);
        const light = (slope * 0.55 + rise * 0.35 + 1) / Math.hypot(slope, rise, 1) / 1.19;
        const seen = corners.map(see);
        const near = seen.reduce((sum, point) => sum + point[2], 0) / 4;
        const mean = z.reduce((a, b) => a + b) / 4;
        list.push({ near, seen, fill: shade(data.colours, mean, 0.84 + 0.18 * clamp(light, 0, 1)) });
      }
    }
  };
  const shade = (colours, share, light) => {
    const colour = parseInt(colours[Math.round(share * (colours.length - 1))].slice(1), 16);
    const part = (shift) => Math.min(255, Math.round(((colour >> shift) & 255) * light));
    return `rgb(${part(16)},${part(8)},${part(0)})`;
  };

  // Names beside their pins: above, or below where no other name or ring is in the way.
  const names = (spots, width, height, see, pen, style) => {
    const placed = spots.map((spot) => ({ ...spot, seen: see(spot.at) }));
    placed.sort((a, b) => a.seen[1] - b.seen[1]);
    const taken = placed.map(({ seen: [x, y] }) => [x - 8, x + 8, y - 8, y + 8]);
    for (const { label, seen: [x, y] } of placed) {
      const wide = Math.min(pen.measureText(label).width + 10, width - 4);
      const left = clamp(x - wide / 2, 2, width - wide - 2);
      const free = (top) => top >= 2 && top + 18 <= height - 2 &&
        taken.every((t) => left > t[1] || t[0] > left + wide || top > t[3] || t[2] > top + 18);
      const tops = [];
      for (let far = 24; far < height; far += 6) tops.push(y - far - 18, y + far);
      const top = tops.find(free) ?? clamp(y - 42, 2, height - 20);
      taken.push([left, left + wide, top - 2, top + 20]);
      pen.strokeStyle = style("ink");
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(clamp(x, left, left + wide), top + 9);
      pen.stroke();
      for (const [tone, line] of [["paper", 5], ["ink", 2]]) {
        pen.strokeStyle = style(tone);
        pen.lineWidth = line;
        pen.beginPath();
        pen.arc(x, y, 5, 0, 7);
        pen.stroke();
      }
      pen.globalAlpha = 0.88;
      pen.fillStyle = style("paper");
      pen.fillRect(left, top, wide, 18);
      pen.globalAlpha = 1;
      pen.fillStyle = style("ink");
      pen.textAlign = "center";
      pen.fillText(label, left + wide / 2, top + 9.5, wide - 6);
    }
  };

  const draw = (canvas, data, turn) => {
    const width = canvas.parentNode.clientWidth;
    const height = Math.round(clamp(width * 0.66, 270, 520));
    const dots = window.devicePixelRatio || 1;
    canvas.width = width * dots;
    canvas.height = height * dots;
    canvas.style.height = `${height}px`;
    const sheet = getComputedStyle(canvas);
    const style = (name) => sheet.getPropertyValue(`--${name}`).trim();
    const pen = canvas.getContext("2d");
    pen.scale(dots, dots);
    pen.font = `${width < 480 ? 11 : 12.5}px system-ui, sans-serif`;
    pen.textBaseline = "middle";
    pen.lineJoin = pen.lineCap = "round";
    const half = data.axes.map((axis) => axis.half);
    const see = view(turn, half, width, height);
    const line = (points, colour, wide) => {
      pen.strokeStyle = colour;
      pen.lineWidth = wide;
      pen.beginPath();
      points.forEach(([x, y]) => pen.lineTo(x, y));
      pen.stroke();
    };
    // The floor, and words along the two edges of it that are nearest.
    const [w, d] = half;
    const floor = [[-w, -d, 0], [w, -d, 0], [w, d, 0], [-w, d, 0], [-w, -d, 0]];
    line(floor.map(see), style("faint"), 1);
    const nearer = (a, b) => (see(a)[2] > see(b)[2] ? 1 : -1);
    const [y, x] = [d * nearer([0, d, 0], [0, -d, 0]), w * nearer([w, 0, 0], [-w, 0, 0])];
    // A word beside a point, at the side where another point is: clear of the edge.
    const word = (text, point, towards, tone, gap) => {
      const [[x0, y0], [x1, y1]] = [see(point), see(towards)];
      const long = Math.hypot(x1 - x0, y1 - y0) || 1;
      const [right, down] = [(x1 - x0) / long, (y1 - y0) / long];
      const wide = Math.min(pen.measureText(text).width, width * 0.45);
      const middle = x0 + right * (gap + wide / 2);
      pen.fillStyle = style(tone);
      pen.textAlign = "center";
      pen.fillText(text, clamp(middle, wide / 2 + 2, width - wide / 2 - 2), clamp(y0 + down * (gap + 7), 9, height - 9), wide);
    };
    [-1, 1].forEach((side, i) => {
      word(data.axes[0].ends[i], [side * w * 0.88, y, 0], [side * w * 0.88, 2 * y, 0], "faint", 7);
      word(data.axes[1].ends[i], [x, side * d * 0.88, 0], [2 * x, side * d * 0.88, 0], "faint", 7);
    });
    word(data.axes[0].label, [0, y, 0], [0, 2 * y, 0], "ink", 22);
    word(data.axes[1].label, [x, 0, 0], [2 * x, 0, 0], "ink", 22);
    // The height, at the corner that is farthest to the left.
    const [post] = floor.slice(0, 4).sort((a, b) => see(a)[0] - see(b)[0]);
    line([post, [post[0], post[1], 1]].map(see), style("faint"), 1);
    [0, 1].forEach((z) => {
      const [left, top] = see([post[0], post[1], z]);
      pen.fillStyle = style("faint");
      pen.textAlign = "right";
      pen.fillText(data.axes[2].ends[z], Math.max(left - 7, pen.measureText(data.axes[2].ends[z]).width + 2), top + (z ? 4 : -4));
    });
    pen.fillStyle = style("ink");
    pen.textAlign = "left";
    pen.fillText(data.axes[2].label, 4, 10, width - 8);
    const list = [];
    quads(data, see, list);
    for (const path of data.paths) {
      // A little nearer than the quads that they lie on.
      const above = (point) => { const seen = see(point); seen[2] += 0.05; return seen; };
      for (const points of path.lines) {
        for (let i = 0; i + 1 < points.length; i++) {
          const seen = [above(points[i]), above(points[i + 1])];
          const near = (seen[0][2] + seen[1][2]) / 2;
          // Its seam is below its neighbours.
          list.push({ near: near - 0.03, seen, tone: "paper", wide: 4 }, { near, seen, tone: path.tone, wide: 2 });
        }
      }
      for (const dot of path.dots) {
        const [seen, near] = [[see(dot), see(dot)], above(dot)[2] + 0.01];
        list.push({ near, seen, tone: "paper", wide: 8 }, { near, seen, tone: path.tone, wide: 5 });
      }
    }
    list.sort((a, b) => a.near - b.near);
    for (const { seen, fill, tone, wide } of list) {
      if (fill) {
        pen.fillStyle = fill;
        pen.beginPath();
        seen.forEach(([px, py]) => pen.lineTo(px, py));
        pen.closePath();
        pen.fill();
        line([...seen, seen[0]], fill, 0.7);
      } else {
        line(seen, style(tone), wide);
      }
    }
    // What hills hide of ways shines through.
    pen.globalAlpha = 0.3;
    for (const { seen, fill, tone, wide } of list) {
      if (!fill && tone !== "paper") line(seen, style(tone), wide);
    }
    pen.globalAlpha = 1;
    names(data.spots, width, height, see, pen, style);
  };

  const begin = (box) => {
    const [canvas, source] = [box.querySelector("canvas"), box.querySelector("script")];
    const data = JSON.parse(source.textContent);
    const turn = turns[canvas.id] ||= { around: -0.6, above: 0.62 };
    let waits = false;
    const again = () => {
      if (waits || !canvas.isConnected) return;
      waits = true;
      requestAnimationFrame(() => { waits = false; draw(canvas, data, turn); });
    };
    const by = (right, down) => {
      turn.around += right;
      turn.above = clamp(turn.above + down, 0.05, Math.PI / 2);
      again();
    };
    let last = null; // where the one pointer was that drags
    canvas.addEventListener("pointerdown", (event) => {
      if (!event.isPrimary) return;
      canvas.setPointerCapture(event.pointerId);
      last = [event.clientX, event.clientY];
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!last || !event.isPrimary) return;
      by((event.clientX - last[0]) * 0.009, (event.clientY - last[1]) * 0.007);
      last = [event.clientX, event.clientY];
    });
    canvas.addEventListener("lostpointercapture", () => { last = null; });
    const keys = { ArrowLeft: [-0.12, 0], ArrowRight: [0.12, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
    canvas.addEventListener("keydown", (event) => {
      if (!keys[event.key]) return;
      event.preventDefault();
      by(...keys[event.key]);
    });
    box.hidden = false;
    draw(canvas, data, turn);
    new ResizeObserver(again).observe(box);
    for (const query of ["(prefers-color-scheme: dark)", "(resolution: 1dppx)", "print"]) {
      matchMedia(query).addEventListener("change", () => canvas.isConnected && draw(canvas, data, turn));
    }
  };
  const all = () => document.querySelectorAll(".surface").forEach(begin);
  document.addEventListener("fresh", all);
  all();
})();
