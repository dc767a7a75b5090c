"""Reports made from raw samples alone: samples → document (what to say) → HTML, Markdown or JSON (how it looks)."""
