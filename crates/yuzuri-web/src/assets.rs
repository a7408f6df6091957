//! The page's own files, built from `ui/` and embedded in the program.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "ui/dist"]
struct Dist;

/// Whether a path names an asset.
pub(crate) fn has(path: &str) -> bool {
    name(path).is_some_and(|(name, _)| Dist::get(name).is_some())
}

/// The file that a path names, and its type.
fn name(path: &str) -> Option<(&str, &'static str)> {
    let name = if path == "/" { "index.html" } else { path.strip_prefix('/')? };
    let (stem, extension) = name.rsplit_once('.')?;
    let kind = match extension {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    };
    (!stem.is_empty()).then_some((name, kind))
}

/// The file at a path, compressed if the browser accepts that; `None` if it does not exist.
pub(crate) fn file(path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let (name, kind) = name(path)?;
    let accepts = headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let takes_gzip =
        accepts.split(',').any(|part| part.split(';').next().is_some_and(|e| e.trim() == "gzip"));
    let packed = if takes_gzip { Dist::get(&format!("{name}.gz")) } else { None };
    let is_packed = packed.is_some();
    let file = packed.or_else(|| Dist::get(name))?;
    let tag: String = file.metadata.sha256_hash().iter().take(12).map(|b| format!("{b:02x}")).collect();
    let tag = format!("\"{tag}\"");
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == tag.as_bytes());
    let body = if known { Body::empty() } else { Body::from(file.data.into_owned()) };
    let mut response = Response::new(body);
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    if is_packed {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Some(response)
}
