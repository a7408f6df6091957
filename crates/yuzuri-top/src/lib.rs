//! The terminal screen: a sortable table, one flow's chart, events as they come.
