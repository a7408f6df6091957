//! The live model of flows that every face shows: a table, and histories that thin but keep extremes.
