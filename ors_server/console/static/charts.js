// Draws the charts whose options are in the page; colours are the page's, tooltips are nodes, not markup.
"use strict";
(() => {
  const ink = (name) => {
    const probe = document.createElement("i");
    probe.className = `ink-${name}`;
    document.body.append(probe);
    const color = getComputedStyle(probe).color;
    probe.remove();
    return color;
  };
  const number = (value) => value.toFixed(2).replace("-", "−");

  function tooltip(points) {
    const box = document.createElement("div"), head = document.createElement("b");
    head.textContent = String(points[0].value[0]);
    box.append(head);
    for (const point of points) {
      if (!point.seriesName || point.seriesName.startsWith("series\0")) continue;
      const row = document.createElement("div"), key = document.createElement("i");
      key.className = `key s${point.seriesIndex / 3 + 1 | 0}`;
      row.append(key, `${point.seriesName} ${number(point.value[1])}`);
      box.append(row);
    }
    return box;
  }

  function draw(place) {
    const options = JSON.parse(document.getElementById(place.dataset.chart).textContent);
    const [text, line] = [ink("muted"), ink("line")];
    for (const series of options.series) {
      const color = ink(`s${(series.line ?? 0) + 1}`);
      series.itemStyle = { color };
      series.lineStyle = { ...series.lineStyle, color };
      if (series.band) series.areaStyle = { color, opacity: 0.16 };
    }
    for (const axis of [options.xAxis, options.yAxis]) {
      axis.axisLabel = { color: text, fontSize: 12 };
      axis.nameTextStyle = { color: text, fontSize: 12 };
      axis.axisLine = { lineStyle: { color: line } };
      axis.splitLine = { show: axis === options.yAxis, lineStyle: { color: line } };
    }
    Object.assign(options.tooltip, {
      backgroundColor: ink("page"), borderColor: ink("edge"), textStyle: { color: ink("text"), fontSize: 12 },
      formatter: (points) => tooltip(points.filter((point) => point.seriesIndex % 3 === 2)),
    });
    const chart = echarts.getInstanceByDom(place) ?? echarts.init(place, null, { renderer: "canvas" });
    chart.setOption(options);
    return chart;
  }

  const places = [...document.querySelectorAll("[data-chart]")];
  let charts = places.map(draw);
  const observer = new ResizeObserver(() => charts.forEach((chart) => chart.resize()));
  places.forEach((place) => observer.observe(place));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { charts = places.map(draw); });
})();
