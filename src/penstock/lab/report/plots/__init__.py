"""Plots as Plotly figures in plain data.

`base` has traces, axes, layout and the plots of costs and starts; `measures` has bars and curves of timed work and of
right-sizing; `queries` has times and ratios by query; `series` has rates over time, latencies and block devices.
"""
