/* Draws the charts of a report from the embedded data. Every text and table is in the page already. */
"use strict";
(() => {
  const report = JSON.parse(document.getElementById("data").textContent);
  const live = document.getElementById("live");
  const SHAPES = {
    circle: "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    square: "M-3.5-3.5h7v7h-7z",
    triangle: "M0-5L5 4H-5z",
    diamond: "M0-6L5.5 0L0 6L-5.5 0z",
    star: "M0-8L2.1-2.8L7.6-2.5L3.3 1L4.7 6.5L0 3.4L-4.7 6.5L-3.3 1L-7.6-2.5L-2.1-2.8z",
    plus: "M-1.3-5h2.6v3.7h3.7v2.6h-3.7v3.7h-2.6v-3.7h-3.7v-2.6h3.7z",
    cross: "M-4.6-2.7L-2.7-4.6L0-1.9L2.7-4.6L4.6-2.7L1.9 0L4.6 2.7L2.7 4.6L0 1.9L-2.7 4.6L-4.6 2.7L-1.9 0z",
    line: "M-7-1h14v2h-14z",
  };
  const MARKS = {
    mode: { shape: "circle", colour: "--mode", label: "mode change" },
    trial: { shape: "triangle", colour: "--trial", label: "trial" },
    guard: { shape: "square", colour: "--guard", label: "guard action" },
    limit: { shape: "diamond", colour: "--rival", label: "limit change" },
  };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const known = (value) => value !== null && value !== undefined;
  const watts = (value) => (known(value) ? value.toFixed(1) + " W" : "unknown");
  const millis = (seconds) => (known(seconds) ? (seconds * 1e3).toFixed(1) + " ms a step" : "no step time");
  const clock = (seconds) => {
    const whole = Math.round(seconds), h = Math.floor(whole / 3600), m = Math.floor(whole / 60) % 60, s = whole % 60;
    const two = (n) => String(n).padStart(2, "0");
    return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
  };

  function glyph(ctx, shape, x, y, fill, hollow) {
    ctx.save();
    ctx.translate(x, y);
    ctx.scale(devicePixelRatio, devicePixelRatio);
    const path = new Path2D(SHAPES[shape]);
    ctx.fillStyle = hollow ? colour("--paper") : fill;
    ctx.strokeStyle = hollow ? fill : colour("--paper");
    ctx.lineWidth = hollow ? 1.5 : 1;
    ctx.fill(path);
    ctx.stroke(path);
    ctx.restore();
  }

  function legend(root, entries) {
    const box = document.createElement("div");
    box.className = "legend";
    for (const { shape, colour: name, label, hollow } of entries) {
      const item = document.createElement("span");
      item.innerHTML = `<svg viewBox="-8 -8 16 16" aria-hidden="true"><path d="${SHAPES[shape]}"/></svg>`;
      const path = item.querySelector("path");
      path.style.fill = hollow ? "none" : `var(${name})`;
      path.style.stroke = hollow ? `var(${name})` : "none";
      path.style.strokeWidth = "1.5";
      item.append(label);
      box.append(item);
    }
    root.after(box);
  }

  const FONT = "12px system-ui, DejaVu Sans, sans-serif";
  const TICKS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  const axis = (label, values, size, incrs) => ({
    label, values, size, incrs, stroke: () => colour("--soft"), font: FONT, labelFont: FONT, labelSize: 18,
    grid: { stroke: () => colour("--line"), width: 1 }, ticks: { stroke: () => colour("--line"), width: 1 },
  });
  const stepped = uPlot.paths.stepped({ align: 1 });
  const height = (root) => Math.max(200, Math.min(320, root.clientWidth * 0.45));

  /* A chart whose hover shows what `describe` says about the place that `nearest` finds. Arrow keys move, too. */
  function chart(root, options, data, nearest, describe, stops) {
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    let plot = null, at = -1;
    const show = (place) => {
      at = place ? place.index : -1;
      tip.hidden = !place;
      if (!place) return;
      const text = describe(place);
      tip.textContent = text;
      const left = place.x + plot.over.offsetLeft, room = root.clientWidth;
      tip.style.left = Math.max(0, Math.min(left + 12, room - tip.offsetWidth - 4)) + "px";
      tip.style.top = Math.max(0, place.y + plot.over.offsetTop - tip.offsetHeight - 12) + "px";
    };
    const moved = (u) => show(u.cursor.left >= 0 ? nearest(u, u.cursor.left, u.cursor.top) : null);
    const draw = () => {
      if (plot) plot.destroy();
      plot = new uPlot(
        { width: root.clientWidth, height: height(root), legend: { show: false }, ...options(),
          cursor: { drag: { x: false, y: false }, points: { show: false }, ...options().cursor },
          hooks: { ...options().hooks, setCursor: [moved] } }, data, root);
      root.append(tip);
    };
    draw();
    root.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const places = stops(plot);
      let next = null;
      if (step) next = Math.max(0, Math.min(places.length - 1, at + step));
      else if (event.key === "Home") next = 0;
      else if (event.key === "End") next = places.length - 1;
      else if (event.key === "Escape") show(null);
      if (next === null || !places.length) return;
      event.preventDefault();
      show({ ...places[next], index: next });
      live.textContent = tip.textContent;
    });
    root.addEventListener("blur", () => show(null));
    new ResizeObserver(() => plot.setSize({ width: root.clientWidth, height: height(root) })).observe(root);
    for (const query of ["(prefers-color-scheme: dark)", "print"])
      matchMedia(query).addEventListener("change", draw);
  }

  function verticals(u, x, name, dash) {
    const ctx = u.ctx;
    ctx.save();
    ctx.strokeStyle = colour(name);
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash(dash.map((each) => each * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(x, u.bbox.top);
    ctx.lineTo(x, u.bbox.top + u.bbox.height);
    ctx.stroke();
    ctx.restore();
  }

  function drawMarks(marks) {
    return (u) => {
      for (const mark of marks) {
        const x = u.valToPos(mark.at_s, "x", true), style = MARKS[mark.kind];
        if (mark.kind !== "trial") verticals(u, x, style.colour, [3, 4]);
      }
      for (const mark of marks) {
        const style = MARKS[mark.kind];
        glyph(u.ctx, style.shape, u.valToPos(mark.at_s, "x", true), u.bbox.top + 8 * devicePixelRatio,
          colour(style.colour), false);
      }
    };
  }

  function timeNearest(line) {
    return (u, left) => {
      let best = null;
      for (const mark of line.marks) {
        const far = Math.abs(u.valToPos(mark.at_s, "x") - left);
        if (far < 8 && (!best || far < best.far)) best = { far, mark };
      }
      const index = u.posToIdx(best ? u.valToPos(best.mark.at_s, "x") : left);
      return { index, x: left, y: 40, mark: best && best.mark };
    };
  }

  function timeDescription(line) {
    return ({ index, mark }) => {
      const lines = [clock(mark ? mark.at_s : line.at_s[index])];
      if (mark) lines[0] += ` ${MARKS[mark.kind].label}: ${mark.text}`;
      const lowest = line.power_min_w[index], highest = line.power_max_w[index];
      const range = known(lowest) && known(highest) ? ` (${lowest.toFixed(1)} to ${highest.toFixed(1)})` : "";
      lines.push(`${watts(line.power_mean_w[index])}${range}, limit ${watts(line.limit_w[index])}`);
      lines.push(millis(line.step_s[index]));
      if (line.mode[index]) lines.push(line.mode[index]);
      return lines.join("\n");
    };
  }

  function timeStops(line) {
    return (u) => {
      const stops = line.at_s.map((at, index) => ({ at, index, mark: null }));
      for (const mark of line.marks) stops.push({ at: mark.at_s, index: u.valToIdx(mark.at_s), mark });
      stops.sort((a, b) => a.at - b.at);
      return stops.map(({ at, index, mark }) => ({ row: index, mark, x: u.valToPos(at, "x"), y: 40 }));
    };
  }

  const byRow = (describe) => (place) => describe({ ...place, index: known(place.row) ? place.row : place.index });

  function timeChart(root, line, series, bands, values, scale) {
    const options = () => ({
      scales: { x: { time: false }, y: scale },
      axes: [axis("time since the start", (u, splits) => splits.map(clock), 46, TICKS_S), axis(values, null, 64)],
      series: [{}, ...series().map((each) => ({ points: { show: false }, ...each }))],
      bands: bands(), hooks: { draw: [drawMarks(line.marks)] },
      cursor: { sync: { key: "time-" + root.dataset.board } },
    });
    return { options, nearest: timeNearest(line), describe: byRow(timeDescription(line)), stops: timeStops(line) };
  }

  const fromZero = (u, lowest, highest) => [0, (highest || 1) * 1.15];

  function powerChart(root) {
    const line = report.boards[root.dataset.board].timeline;
    const series = () => [
      { stroke: "transparent" }, { stroke: "transparent" },
      { stroke: colour("--power"), width: 2 },
      { stroke: colour("--limit"), width: 2, dash: [6, 4], paths: stepped },
    ];
    const bands = () => [{ series: [1, 2], fill: colour("--band") }];
    const made = timeChart(root, line, series, bands, "power, W", { range: fromZero });
    const data = [line.at_s, line.power_max_w, line.power_min_w, line.power_mean_w, line.limit_w];
    chart(root, made.options, data, made.nearest, made.describe, made.stops);
    const kinds = Object.keys(MARKS).filter((kind) => line.marks.some((mark) => mark.kind === kind));
    legend(root, [{ shape: "line", colour: "--power", label: "mean power, with its range" },
      { shape: "line", colour: "--limit", label: "limit" }, ...kinds.map((kind) => MARKS[kind])]);
  }

  function stepChart(root) {
    const line = report.boards[root.dataset.board].timeline;
    const series = () => [{ stroke: colour("--step"), width: 2 }];
    const ms = line.step_s.map((each) => (known(each) && each > 0 ? each * 1e3 : null));
    const values = ms.filter(known);
    // The first, slowest mode would press all others down to a flat line.
    const wide = Math.max(...values) > 10 * Math.min(...values);
    const label = wide ? "ms a step, logarithmic" : "ms a step";
    const made = timeChart(root, line, series, () => [], label, wide ? { distr: 3 } : { range: fromZero });
    const data = [line.at_s, ms];
    chart(root, made.options, data, made.nearest, made.describe, made.stops);
  }

  /* The points of the front's chart, each once, the most telling role last so that it is drawn on top. */
  function frontPoints(board) {
    const points = [];
    const add = (point, role, label, shape, name, hollow) =>
      points.push({ ...point, role, label, shape, colour: name, hollow });
    for (const point of board.front)
      if (point.basis === "predicted") add(point, "predicted", "predicted", "circle", "--front", true);
    for (const trial of board.trials)
      if (trial.over_limit) add(trial.point, "over", "measured, over the limit", "triangle", "--limit", false);
      else add(trial.point, "measured", "measured", "square", "--front", false);
    for (const each of board.comparisons.filter((other) => other.name !== "runner-up"))
      add(each.point, each.name === "MAXN" ? "maxn" : "preset", each.name, each.name === "MAXN" ? "cross" : "plus",
        "--rival", false);
    if (board.runner_up) add(board.runner_up, "runner-up", "runner-up", "diamond", "--trial", false);
    if (board.chosen) add(board.chosen, "chosen", "chosen", "star", "--chosen", false);
    return points.map((point) => ({ ...point, ms: point.step_s * 1e3 })).sort((a, b) => a.power_w - b.power_w);
  }

  function drawFront(board, points) {
    return (u) => {
      const ctx = u.ctx, x = (p) => u.valToPos(p.power_w, "x", true), y = (p) => u.valToPos(p.ms, "y", true);
      ctx.save();
      ctx.beginPath();
      ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
      ctx.clip();
      ctx.lineWidth = devicePixelRatio;
      ctx.strokeStyle = colour("--front");
      ctx.globalAlpha = 0.45;
      for (const p of points.filter((each) => known(each.step_pm_s) && each.basis === "predicted")) {
        const up = u.valToPos(Math.max(p.ms / 10, p.ms - p.step_pm_s * 1e3), "y", true);
        const down = u.valToPos(p.ms + p.step_pm_s * 1e3, "y", true);
        const left = u.valToPos(p.power_w - (p.power_pm_w || 0), "x", true);
        const right = u.valToPos(p.power_w + (p.power_pm_w || 0), "x", true);
        ctx.beginPath();
        ctx.moveTo(x(p), up); ctx.lineTo(x(p), down); ctx.moveTo(left, y(p)); ctx.lineTo(right, y(p));
        ctx.stroke();
      }
      ctx.globalAlpha = 1;
      ctx.restore();
      if (known(board.limit_w)) verticals(u, u.valToPos(board.limit_w, "x", true), "--limit", [6, 4]);
      const order = ["predicted", "measured", "over", "preset", "maxn", "runner-up", "chosen"];
      for (const role of order)
        for (const p of points.filter((each) => each.role === role))
          glyph(ctx, p.shape, x(p), y(p), colour(p.colour), p.hollow);
    };
  }

  function frontChart(root) {
    const board = report.boards[root.dataset.board], points = frontPoints(board);
    const place = (u, p, index) => ({ index, point: p, x: u.valToPos(p.power_w, "x"), y: u.valToPos(p.ms, "y") });
    const nearest = (u, left, top) => {
      let best = null, far = 30;
      points.forEach((p, index) => {
        const here = place(u, p, index), away = Math.hypot(here.x - left, here.y - top);
        if (away <= far) { best = here; far = away; }
      });
      return best;
    };
    const plusMinus = (value, scale, digits) => (known(value) ? ` ± ${(value * scale).toFixed(digits)}` : "");
    const describe = ({ point: p }) =>
      `${p.label} (${p.basis})\n${p.human}\n${p.ms.toFixed(1)}${plusMinus(p.step_pm_s, 1e3, 1)} ms a step\n` +
      `${p.power_w.toFixed(1)}${plusMinus(p.power_pm_w, 1, 1)} W`;
    // A front over more than a decade would be a flat line with one steep end.
    const wide = Math.max(...points.map((p) => p.ms)) > 10 * Math.min(...points.map((p) => p.ms));
    const widest = Math.max(board.limit_w || 0, ...points.map((p) => p.power_w));
    const options = () => ({
      scales: { x: { time: false, range: () => [0, widest * 1.08] }, y: wide ? { distr: 3 } : { range: fromZero } },
      axes: [axis("power, W", null, 46), axis(wide ? "ms a step, logarithmic" : "ms a step", null, 64)],
      series: [{}, { stroke: "transparent", points: { show: false } }],
      hooks: { draw: [drawFront(board, points)] },
    });
    const data = [points.map((p) => p.power_w), points.map((p) => p.ms)];
    chart(root, options, data, nearest, describe, (u) => points.map((p, index) => place(u, p, index)));
    const seen = new Map(points.map((p) => [p.role, { ...p, label: p.role === "preset" ? "NVIDIA's presets" : p.label }]));
    legend(root, [...seen.values(), { shape: "line", colour: "--limit", label: "limit" }]);
  }

  const fleetColour = (index) => `--fleet${index % 6}`;

  function fleetChart(root, values, stacked, label) {
    const fleet = report.fleet, boards = fleet.boards;
    let columns = boards.map(values);
    if (stacked) {
      const total = fleet.at_s.map(() => 0);
      columns = columns.map((column) => column.map((value, row) => (total[row] += value || 0)));
    }
    const options = () => ({
      scales: { x: { time: false }, y: { range: fromZero } },
      axes: [axis("time since the start", (u, splits) => splits.map(clock), 46, TICKS_S), axis(label, null, 52)],
      series: [{}, ...columns.map((_, index) => ({
        stroke: colour(fleetColour(index)), width: 2, points: { show: false }, paths: stacked ? undefined : stepped,
        fill: stacked && index === 0 ? colour(fleetColour(0)) + "40" : undefined })),
        { stroke: colour("--limit"), width: 2, dash: [6, 4], paths: stepped, points: { show: false } }],
      bands: stacked ? columns.slice(1).map((_, index) => ({
        series: [index + 2, index + 1], fill: colour(fleetColour(index + 1)) + "40" })) : [],
      cursor: { sync: { key: "fleet" } },
    });
    const nearest = (u, left) => ({ index: u.posToIdx(left), x: left, y: 40 });
    const describe = ({ index }) => [`${clock(fleet.at_s[index])}, cap ${watts(fleet.cap_w[index])}`,
      ...boards.map((board) => `${board.node}: ${watts(values(board)[index])}`)].join("\n");
    const stops = (u) => fleet.at_s.map((at) => ({ x: u.valToPos(at, "x"), y: 40 }));
    chart(root, options, [fleet.at_s, ...columns, fleet.cap_w], nearest, describe, stops);
    legend(root, [...boards.map((board, index) => ({ shape: "line", colour: fleetColour(index), label: board.node })),
      { shape: "line", colour: "--limit", label: "cap" }]);
  }

  const DRAW = {
    power: powerChart, step: stepChart, front: frontChart,
    "fleet-power": (root) => fleetChart(root, (board) => board.power_w, true, "power, W"),
    "fleet-share": (root) => fleetChart(root, (board) => board.share_w, false, "share, W"),
  };
  for (const root of document.querySelectorAll(".chart")) DRAW[root.dataset.chart](root);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));
  document.documentElement.dataset.drawn = "yes";
})();
