"""Charts: their options are made here, and `charts.js` draws them in the console and in reports."""
