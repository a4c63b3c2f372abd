// Draws the charts whose options are in the page; colours are the page's, tooltips are nodes, not markup.
"use strict";
(async () => {
  const places = [...document.querySelectorAll("[data-chart]")];
  if (!places.length) return;

  // A page of one file holds the library packed; its policy allows exactly this script by its hash.
  const packed = document.getElementById("echarts-packed");
  if (packed) {
    const script = document.createElement("script");
    script.textContent = await unpacked(packed); // of the page's own script
    document.head.append(script);
  }

  const inks = new Map();
  const ink = (name) => {
    if (inks.has(name)) return inks.get(name);
    const probe = document.createElement("i");
    probe.className = `ink-${name}`;
    document.body.append(probe);
    const color = getComputedStyle(probe).color;
    probe.remove();
    inks.set(name, color);
    return color;
  };
  const number = (value) => value.toFixed(2).replace("-", "−");

  function tooltip(params, series) {
    const points = [params].flat().filter((point) => !point.seriesName.startsWith("series\0"));
    const box = document.createElement("div"), head = document.createElement("b");
    if (!points.length) return box;
    if (Array.isArray(params)) { head.textContent = String(points[0].axisValueLabel ?? points[0].axisValue ?? points[0].value[0]); box.append(head); }
    for (const point of points) {
      const row = document.createElement("div"), key = document.createElement("i");
      key.className = `key ${point.data.ink ?? series[point.seriesIndex].ink}`;
      row.append(key, point.data.words ?? `${point.seriesName} ${number([point.value].flat().at(-1))}`);
      box.append(row);
    }
    return box;
  }

  function draw(place) {
    const options = JSON.parse(document.getElementById(place.dataset.chart).textContent);
    const [text, line] = [ink("muted"), ink("line")];
    for (const series of options.series) {
      const color = ink(series.ink);
      series.itemStyle = { ...series.itemStyle, color };
      if (series.type === "line") series.lineStyle = { ...series.lineStyle, color };
      if (series.band) series.areaStyle = { color, opacity: 0.16 };
      for (const item of series.data) if (item.ink) item.itemStyle = { color: ink(item.ink) };
      if (series.markLine) {
        series.markLine.lineStyle = { color: ink("text"), type: "dashed", opacity: 0.65 };
        for (const mark of series.markLine.data) mark.label.color = ink("text");
      }
    }
    for (const axis of [options.xAxis, options.yAxis]) {
      axis.axisLabel = { color: text, fontSize: 12, hideOverlap: true, ...axis.axisLabel };
      if (axis.percent) axis.axisLabel.formatter = (value) => `${Number((100 * value).toFixed(1))} %`;
      axis.nameTextStyle = { color: text, fontSize: 12, ...(axis === options.yAxis ? { align: "left" } : {}) };
      axis.axisLine = { lineStyle: { color: line } };
      axis.splitLine = { show: axis.type === "value" && (axis === options.yAxis || options.yAxis.type === "category"), lineStyle: { color: line } };
    }
    Object.assign(options.tooltip, {
      backgroundColor: ink("page"), borderColor: ink("edge"), textStyle: { color: ink("text"), fontSize: 12 },
      formatter: (params) => tooltip(params, options.series),
    });
    const chart = echarts.getInstanceByDom(place) ?? echarts.init(place, null, { renderer: "canvas" });
    chart.setOption(options);
    return chart;
  }

  let charts = places.map(draw);
  const again = () => { inks.clear(); charts = places.map(draw); };
  const observer = new ResizeObserver(() => charts.forEach((chart) => chart.resize()));
  places.forEach((place) => observer.observe(place));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  document.addEventListener("themechange", again);
})();
