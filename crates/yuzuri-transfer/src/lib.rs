//! The transfer of buffers: a sender that knows when each buffer left and was acknowledged, and a receiver for many.
