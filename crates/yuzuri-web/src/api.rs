//! Request handlers.

use crate::bottlenecks::Bottlenecks;
use crate::broadcast::{self, MAX_FLOWS};
use crate::client::LiveBody;
use crate::connections::{ConnectionSlot, MAX_AUTHENTICATED, TooManyConnections};
use crate::daemon_status::{DaemonAnswer, DaemonStatus};
use crate::encode::{self, TimeBase};
use crate::guard::{Admitted, Guard};
use crate::page::Shared;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use yuzuri_trace::{Density, Filter, FlowId};
use yuzuri_view::{Control, Refused};

/// Largest request body, bytes.
const MAX_BODY: usize = 16 * 1024;
/// Timeout of a request until its response begins.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of points of a history.
const MAX_POINTS: usize = 4096;

/// The handlers' state.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) shared: Arc<Shared>,
    pub(crate) guard: Arc<Guard>,
    /// Notified when a browser connects, so that its first update does not wait for the next
    /// interval.
    pub(crate) browser_connected: Arc<Notify>,
    pub(crate) share: Arc<DaemonStatus>,
    pub(crate) bottlenecks: Arc<Bottlenecks>,
}

/// A refused request: a status and one line of JSON.
struct Refusal(StatusCode, String);

impl Refusal {
    fn bad(why: impl Into<String>) -> Refusal {
        Refusal(StatusCode::BAD_REQUEST, why.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response<Body> {
        json(self.0, serde_json::json!({ "error": self.1.replace(['\n', '\r'], " ") }).to_string())
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        let status = match refused {
            Refused::Unavailable(_) => StatusCode::CONFLICT,
            Refused::Failed(_) => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Refusal(status, refused.to_string())
    }
}

type ApiResult = Result<Response<Body>, Refusal>;

fn json(status: StatusCode, body: String) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn done() -> Response<Body> {
    json(StatusCode::OK, "{}".into())
}

/// All routes with all checks.
pub(crate) fn router(app: App) -> Router {
    Router::new()
        .route("/api/session", get(session))
        .route("/api/live", get(live).post(select_flows))
        .route("/api/flows/{id}", get(numbers))
        .route("/api/flows/{id}/history", get(history))
        .route("/api/flows/{id}/history.csv", get(history_csv))
        .route("/api/filter", post(filter))
        .route("/api/density", post(density))
        .route("/api/replay", post(replay))
        .route("/api/share", get(share))
        .route("/api/bottlenecks", get(bottlenecks))
        .fallback(assets)
        .method_not_allowed_fallback(async || {
            Refusal(StatusCode::METHOD_NOT_ALLOWED, "this address does not know that method".into())
        })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(app.clone(), checks))
        .with_state(app)
}

async fn checks(State(app): State<App>, request: Request, next: Next) -> Response<Body> {
    let is_api = request.uri().path().starts_with("/api/");
    let checked =
        app.guard.check(request.method(), request.uri(), request.headers()).and_then(|passed| match request
            .extensions()
            .get::<Arc<ConnectionSlot>>()
            .filter(|_| passed == Admitted::Authenticated)
        {
            Some(slot) => slot.authenticate().map_err(|TooManyConnections| {
                let why = format!("{MAX_AUTHENTICATED} connections are open already: close some browsers");
                (StatusCode::SERVICE_UNAVAILABLE, why)
            }),
            None => Ok(()),
        });
    let mut response = match checked {
        Err((status, why)) => {
            let mut response = Refusal(status, why).into_response();
            if status == StatusCode::UNAUTHORIZED {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            response
        }
        Ok(_) => match tokio::time::timeout(TIMEOUT, next.run(request)).await {
            Ok(response) => response,
            Err(_) => {
                Refusal(StatusCode::REQUEST_TIMEOUT, "the request took too long".into()).into_response()
            }
        },
    };
    let headers = response.headers_mut();
    let mut set = |name: header::HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    if is_api {
        set(header::CACHE_CONTROL, "no-store");
    }
    response
}

async fn assets(method: Method, uri: Uri, headers: HeaderMap) -> ApiResult {
    if method != Method::GET && method != Method::HEAD {
        return Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET here".into()));
    }
    crate::assets::file(uri.path(), &headers)
        .ok_or_else(|| Refusal(StatusCode::NOT_FOUND, "there is nothing at this address".into()))
}

async fn session(State(app): State<App>) -> ApiResult {
    Ok(json(StatusCode::OK, encode::session(&app.shared.model.lock())))
}

fn flow_id(text: &str) -> Result<FlowId, Refusal> {
    let hex = (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let id = u64::from_str_radix(text, 16).ok().filter(|_| hex);
    id.map(FlowId).ok_or_else(|| Refusal::bad("a flow's id is 1 to 16 hexadecimal digits"))
}

fn flow_ids<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<FlowId>, Refusal> {
    let mut flows = Vec::new();
    for text in texts {
        let id = flow_id(text)?;
        if !flows.contains(&id) {
            flows.push(id);
        }
        if flows.len() > MAX_FLOWS {
            return Err(Refusal::bad(format!(
                "at most {MAX_FLOWS} flows can be shown in detail at the same time"
            )));
        }
    }
    Ok(flows)
}

fn query<T: serde::de::DeserializeOwned>(uri: &Uri) -> Result<T, Refusal> {
    match Query::<T>::try_from_uri(uri) {
        Ok(Query(value)) => Ok(value),
        Err(error) => Err(Refusal::bad(format!("the query cannot be read: {}", error.body_text()))),
    }
}

fn body<T: serde::de::DeserializeOwned>(
    bytes: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Result<T, Refusal> {
    let bytes =
        bytes.map_err(|error| Refusal(error.status(), format!("the body cannot be read: {error}")))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Refusal::bad(format!("the body is not the JSON expected here: {error}")))
}

#[derive(Deserialize)]
struct LiveQuery {
    #[serde(default)]
    flows: String,
}

async fn live(State(app): State<App>, uri: Uri) -> ApiResult {
    let LiveQuery { flows } = query(&uri)?;
    let flows = flow_ids(flows.split(',').filter(|id| !id.is_empty()))?;
    let id = crate::guard::Token::random().map_err(|error| {
        Refusal(StatusCode::INTERNAL_SERVER_ERROR, format!("drawing a random id for the browser: {error}"))
    })?;
    let id = id.secret().to_string();
    let latest = broadcast::latest_events(&app.shared.model.lock());
    let joined = app.shared.broadcast.lock().join(id.clone(), flows.clone(), latest);
    let outlet = joined.map_err(|_| {
        Refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{} browsers are connected already: close one", broadcast::MAX_BROWSERS),
        )
    })?;
    let known = app.shared.limits_of(&flows);
    app.shared.with_feed(|feed| feed.subscribe(&flows, |id| known.get(&id).cloned().unwrap_or_default()));
    let mut response = Response::new(Body::new(LiveBody::new(outlet, id, app.shared.clone())));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    app.browser_connected.notify_one();
    Ok(response)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    client: String,
    flows: Vec<String>,
}

async fn select_flows(
    State(app): State<App>,
    bytes: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> ApiResult {
    let Choice { client, flows } = body(bytes)?;
    let flows = flow_ids(flows.iter().map(String::as_str))?;
    let known = app.shared.limits_of(&flows);
    // Subscribe before selecting, and under the broadcaster's lock: a browser that leaves at this
    // moment then unsubscribes the right flows.
    let mut broadcast = app.shared.broadcast.lock();
    let former = broadcast.select_flows(&client, flows.clone()).ok_or_else(|| {
        Refusal(
            StatusCode::NOT_FOUND,
            "there is no open stream of this browser (any more): open /api/live".into(),
        )
    })?;
    app.shared.with_feed(|feed| {
        feed.subscribe(&flows, |id| known.get(&id).cloned().unwrap_or_default());
        feed.unsubscribe(&former);
    });
    Ok(done())
}

#[derive(Deserialize)]
struct Window {
    from: Option<i64>,
    to: Option<i64>,
    points: Option<usize>,
}

fn window(
    app: &App,
    id: &str,
    uri: &Uri,
    write: impl FnOnce(TimeBase, &yuzuri_view::LiveModel, &yuzuri_view::Row, u64, u64, usize) -> String,
) -> Result<String, Refusal> {
    let id = flow_id(id)?;
    let Window { from, to, points } = query(uri)?;
    let points = points.unwrap_or(1000);
    if !(1..=MAX_POINTS).contains(&points) {
        return Err(Refusal::bad(format!("points: a number from 1 to {MAX_POINTS}")));
    }
    let model = app.shared.model.lock();
    let base = TimeBase::of(&model);
    let row = row_of(&model, id)?;
    let from = from.map_or(row.first_ns, |us| base.mono_ns(us));
    let to = to.map_or(model.now_ns(), |us| base.mono_ns(us));
    if from > to {
        return Err(Refusal::bad("from: must not be later than to (microseconds since the session's start)"));
    }
    Ok(write(base, &model, row, from, to, points))
}

/// The model's row of the flow.
fn row_of(model: &yuzuri_view::LiveModel, id: FlowId) -> Result<&yuzuri_view::Row, Refusal> {
    model.row(id).ok_or_else(|| Refusal(StatusCode::NOT_FOUND, format!("there is no flow {id} (any more)")))
}

async fn numbers(State(app): State<App>, Path(id): Path<String>) -> ApiResult {
    let id = flow_id(&id)?;
    let model = app.shared.model.lock();
    Ok(json(StatusCode::OK, encode::numbers(TimeBase::of(&model), row_of(&model, id)?)))
}

async fn history(State(app): State<App>, Path(id): Path<String>, uri: Uri) -> ApiResult {
    let epoch = app.shared.broadcast.lock().epoch();
    let text = window(&app, &id, &uri, |base, model, row, from, to, points| {
        let mut out = format!("{{\"now\":{},\"epoch\":{epoch},\"buckets\":", base.us(model.now_ns()));
        encode::buckets(&mut out, base, &row.history.window(from, to, points));
        out.push_str(",\"events\":[");
        let own = model
            .log_after(0)
            .filter(|l| l.event.flow == row.flow.id && (from..=to).contains(&l.event.mono_ns));
        encode::list(&mut out, own, |out, logged| encode::event(out, base, logged));
        // The time from which the list of events is complete.
        let whole = match model.log_after(0).next() {
            Some(first) if first.number > 1 => first.event.mono_ns,
            _ => model.session().started_mono_ns,
        };
        out.push_str(&format!("],\"events_from\":{}}}", base.us(whole)));
        out
    })?;
    Ok(json(StatusCode::OK, text))
}

async fn history_csv(State(app): State<App>, Path(id): Path<String>, uri: Uri) -> ApiResult {
    let text = window(&app, &id, &uri, |base, _, row, from, to, points| {
        let mut out = String::new();
        encode::csv_head(&mut out);
        for bucket in row.history.window(from, to, points) {
            encode::csv_line(&mut out, base, &bucket);
        }
        out
    })?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8"));
    let name = format!("attachment; filename=\"yuzuri-{}.csv\"", flow_id(&id)?);
    if let Ok(name) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// Runs requests that may block on another thread, so that no browser waits for another one's
/// request.
async fn ask(
    app: App,
    request: impl FnOnce(&dyn Control) -> Result<(), Refused> + Send + 'static,
) -> ApiResult {
    let control = app.shared.control.clone();
    let asked = tokio::task::spawn_blocking(move || request(&*control)).await;
    asked.map_err(|_| {
        Refusal(StatusCode::INTERNAL_SERVER_ERROR, "it failed inside Yuzuri; see its own output".into())
    })??;
    app.browser_connected.notify_one();
    Ok(done())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FilterRequest {
    filter: String,
}

async fn filter(
    State(app): State<App>,
    bytes: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> ApiResult {
    let FilterRequest { filter } = body(bytes)?;
    let filter: Filter =
        filter.parse().map_err(|error: yuzuri_trace::FilterError| Refusal::bad(error.to_string()))?;
    ask(app, move |control| control.set_filter(filter)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DensityRequest {
    interval_us: u64,
}

async fn density(
    State(app): State<App>,
    bytes: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> ApiResult {
    let DensityRequest { interval_us } = body(bytes)?;
    let density = match interval_us {
        0 => Density::EveryAck,
        1..=60_000_000 => Density::Interval { ns: interval_us * 1000 },
        _ => return Err(Refusal::bad("interval_us: 0 for every ACK, else 1 to 60000000 microseconds")),
    };
    ask(app, move |control| control.set_density(density)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplayRequest {
    paused: Option<bool>,
    speed: Option<f64>,
    position_us: Option<u64>,
}

async fn replay(
    State(app): State<App>,
    bytes: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> ApiResult {
    let ReplayRequest { paused, speed, position_us } = body(bytes)?;
    if paused.is_none() && speed.is_none() && position_us.is_none() {
        return Err(Refusal::bad("one of paused, speed, position_us is needed"));
    }
    if speed.is_some_and(|s| !(0.01..=1000.0).contains(&s)) {
        return Err(Refusal::bad("speed: a number from 0.01 to 1000"));
    }
    ask(app, move |control| {
        if let Some(us) = position_us {
            let length_ns = control.replay().map_or(u64::MAX, |r| r.length_ns);
            control.seek(us.saturating_mul(1000).min(length_ns))?;
        }
        if let Some(speed) = speed {
            control.set_speed(speed)?;
        }
        paused.map_or(Ok(()), |paused| control.set_paused(paused))
    })
    .await
}

/// The sharing daemon's status unchanged, or `running: false` with the reason.
async fn share(State(app): State<App>) -> ApiResult {
    match app.share.ask().await {
        DaemonAnswer::Status(text) => Ok(json(StatusCode::OK, text.to_string())),
        DaemonAnswer::NoDaemon { why, help } => {
            let answer = serde_json::json!({ "running": false, "why": why, "help": help });
            Ok(json(StatusCode::OK, answer.to_string()))
        }
        DaemonAnswer::Failed(why) => Err(Refusal(StatusCode::BAD_GATEWAY, why)),
    }
}

/// Which flows share a bottleneck, as far as the last minute shows it.
async fn bottlenecks(State(app): State<App>) -> ApiResult {
    let answer = app.bottlenecks.ask(&app.shared).await;
    answer.map(|text| json(StatusCode::OK, text.to_string())).ok_or_else(|| {
        let why = "comparing the flows failed inside Yuzuri; see its own output";
        Refusal(StatusCode::INTERNAL_SERVER_ERROR, why.into())
    })
}
