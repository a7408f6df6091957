//! The numbers of an event as columns: one table says which field of [`Event`] lies in which column.

use crate::{Event, Snapshot};
use arrow_array::types::{ArrowPrimitiveType, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use std::sync::Arc;

/// A number's column: its Arrow type and the array that holds it.
fn numbers<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
}

/// The named column, if the batch has it.
pub(super) fn typed<'a, A: Array + 'static>(batch: &'a RecordBatch, name: &str) -> Option<&'a A> {
    batch.column_by_name(name)?.as_any().downcast_ref()
}

/// The value in that row, if there is one.
#[inline]
fn value<T: ArrowPrimitiveType>(column: Option<&PrimitiveArray<T>>, row: usize) -> Option<T::Native> {
    column.filter(|column| column.is_valid(row)).map(|column| column.value(row))
}

macro_rules! event_columns {
    ($($name:ident: $arrow:ty, $($field:ident).+ $(, null $null:expr)?;)*) => {
        /// The columns while rows are being gathered.
        #[derive(Default)]
        pub(super) struct EventColumns {
            $($name: Vec<<$arrow as ArrowPrimitiveType>::Native>,)*
        }

        impl EventColumns {
            /// Adds an event's row.
            #[inline]
            pub(super) fn push(&mut self, event: &Event) {
                $(self.$name.push(event.$($field).+);)*
            }

            /// Adds a row that has none of these columns.
            pub(super) fn push_absent(&mut self) {
                $(
                    #[allow(unused_assignments, unused_mut)]
                    let mut absent = Default::default();
                    $(absent = $null;)?
                    self.$name.push(absent);
                )*
            }

            /// Makes room.
            pub(super) fn reserve(&mut self, rows: usize) {
                $(self.$name.reserve_exact(rows);)*
            }

            /// The columns by name, in their order; `present` says which rows are events.
            pub(super) fn take(&mut self, present: &Option<NullBuffer>) -> Vec<(&'static str, ArrayRef)> {
                vec![$({
                    let values = std::mem::take(&mut self.$name);
                    #[allow(unused_mut, unused_assignments)]
                    let mut nulls = present.clone();
                    $(nulls = nulls_where(&values, $null);)?
                    (stringify!($name), numbers::<$arrow>(values, nulls))
                },)*]
            }
        }

        /// The columns of a batch that was read.
        pub(super) struct EventView<'a> {
            $($name: Option<&'a PrimitiveArray<$arrow>>,)*
        }

        impl<'a> EventView<'a> {
            pub(super) fn new(batch: &'a RecordBatch) -> Self {
                EventView { $($name: typed(batch, stringify!($name)),)* }
            }

            /// Fills in the event's numbers.
            #[inline]
            pub(super) fn fill(&self, row: usize, event: &mut Event) {
                $(
                    #[allow(unused_mut, unused_assignments)]
                    let mut absent = Default::default();
                    $(absent = $null;)?
                    event.$($field).+ = value(self.$name, row).unwrap_or(absent);
                )*
            }
        }
    };
}

/// Null where the value is the one that stands for "not there", in events as in other rows.
fn nulls_where<T: PartialEq + Copy>(values: &[T], null: T) -> Option<NullBuffer> {
    let valid = BooleanBuffer::collect_bool(values.len(), |row| values[row] != null);
    Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0)
}

// In the order of the file; `in_flight` is derived and comes in between.
event_columns! {
    cwnd: UInt32Type, snapshot.cwnd;
    ssthresh: UInt32Type, snapshot.ssthresh, null Snapshot::SSTHRESH_INFINITE;
    srtt_us: UInt32Type, snapshot.srtt_us, null 0;
    rttvar_us: UInt32Type, snapshot.rttvar_us;
    min_rtt_us: UInt32Type, snapshot.min_rtt_us, null u32::MAX;
    delivery_rate_bps: UInt64Type, snapshot.delivery_rate_bps;
    pacing_rate_bps: UInt64Type, snapshot.pacing_rate_bps, null u64::MAX;
    packets_out: UInt32Type, snapshot.packets_out;
    sacked_out: UInt32Type, snapshot.sacked_out;
    lost_out: UInt32Type, snapshot.lost_out;
    retrans_out: UInt32Type, snapshot.retrans_out;
    total_retrans: UInt32Type, snapshot.total_retrans;
    reordering: UInt32Type, snapshot.reordering;
    mss_bytes: UInt32Type, snapshot.mss;
    snd_wnd_bytes: UInt32Type, snapshot.snd_wnd;
    rcv_wnd_bytes: UInt32Type, snapshot.rcv_wnd;
    wmem_queued_bytes: UInt32Type, snapshot.wmem_queued;
    notsent_bytes: UInt32Type, snapshot.notsent;
    bytes_acked: UInt64Type, snapshot.bytes_acked;
    bytes_received: UInt64Type, snapshot.bytes_received;
    sndbuf_bytes: UInt32Type, snapshot.sender.sndbuf, null 0;
    wmem_alloc_bytes: UInt32Type, snapshot.sender.wmem_alloc, null u32::MAX;
    outstanding_bytes: UInt32Type, snapshot.sender.outstanding_bytes, null u32::MAX;
    max_window_bytes: UInt32Type, snapshot.sender.max_window, null 0;
    prior_cwnd: UInt32Type, snapshot.sender.prior_cwnd, null u32::MAX;
    pacing_wait_us: UInt32Type, snapshot.sender.pacing_wait_us, null u32::MAX;
    acks: UInt16Type, counts.acks;
    dup_acks: UInt16Type, counts.dup_acks;
    sacks: UInt16Type, counts.sacks;
    dsacks: UInt16Type, counts.dsacks;
}
