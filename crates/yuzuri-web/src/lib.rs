//! The live page: HTTP, server-sent events, and the page itself.
