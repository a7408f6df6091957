//! Which of the model's flows share a bottleneck, as an answer of the server.

use crate::encode::TimeBase;
use crate::page::Shared;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use yuzuri_trace::FlowId;
use yuzuri_view::shared_bottleneck::named_bottlenecks;

/// An answer is reused for this long, however many browsers ask: comparing 64 flows takes up to a
/// tenth of a second.
const CACHE_TIME: Duration = Duration::from_secs(2);

/// The last answer and its time.
#[derive(Debug, Default)]
pub(crate) struct Bottlenecks {
    last: Mutex<Option<(Instant, u64, Arc<str>)>>,
}

impl Bottlenecks {
    /// The answer; `None` if computing it failed.
    pub(crate) async fn ask(&self, shared: &Arc<Shared>) -> Option<Arc<str>> {
        let epoch = shared.broadcast.lock().epoch();
        // Requests that wait for the lock get the same answer.
        let mut last = self.last.lock().await;
        if let Some((at, of, answer)) = &*last
            && *of == epoch
            && at.elapsed() < CACHE_TIME
        {
            return Some(answer.clone());
        }
        let shared = shared.clone();
        let answer: Arc<str> = tokio::task::spawn_blocking(move || answer(&shared, epoch)).await.ok()?.into();
        *last = Some((Instant::now(), epoch, answer.clone()));
        Some(answer)
    }
}

fn answer(shared: &Shared, epoch: u64) -> String {
    let (now, recent) = {
        let model = shared.model.lock();
        (TimeBase::of(&model).us(model.now_ns()), model.recent_delays())
    };
    let bottlenecks: Vec<_> = named_bottlenecks(&recent)
        .into_iter()
        .map(|(flows, each)| {
            json!({
                "flows": flows.iter().map(FlowId::to_string).collect::<Vec<_>>(),
                "correlation": each.correlation,
                "deviations": each.deviations,
            })
        })
        .collect();
    json!({ "now": now, "epoch": epoch, "compared": recent.len(), "bottlenecks": bottlenecks }).to_string()
}
