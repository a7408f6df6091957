//! The page's own files, built from `ui/` and embedded in the program.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use flate2::read::GzDecoder;
use rust_embed::{EmbeddedFile, RustEmbed};
use std::io::Read;

#[derive(RustEmbed)]
#[folder = "ui/dist"]
struct Dist;

/// Whether a path names an asset.
pub(crate) fn has(path: &str) -> bool {
    name(path).is_some_and(|(name, _)| packed(name).is_some())
}

/// A file as embedded: compressed by gzip.
fn packed(name: &str) -> Option<EmbeddedFile> {
    Dist::get(&format!("{name}.gz"))
}

/// The content of an embedded file.
fn unpacked(file: &EmbeddedFile) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    GzDecoder::new(&*file.data).read_to_end(&mut content).ok()?;
    Some(content)
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

/// The file at a path, unpacked for clients that do not accept gzip; `None` if it does not exist.
pub(crate) fn file(path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let (name, kind) = name(path)?;
    let accepts = headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let takes_gzip =
        accepts.split(',').any(|part| part.split(';').next().is_some_and(|e| e.trim() == "gzip"));
    let file = packed(name)?;
    let tag: String = file.metadata.sha256_hash().iter().take(12).map(|b| format!("{b:02x}")).collect();
    let tag = if takes_gzip { format!("\"{tag}\"") } else { format!("\"{tag}-plain\"") };
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == tag.as_bytes());
    let body = match (known, takes_gzip) {
        (true, _) => Body::empty(),
        (false, true) => Body::from(file.data.into_owned()),
        (false, false) => Body::from(unpacked(&file)?),
    };
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
    if takes_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Some(response)
}
