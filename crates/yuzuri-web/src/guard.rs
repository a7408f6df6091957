//! Access control. Only holders of the token are admitted, which keeps out other users of this
//! machine and of the network. Other sites in the same browser are refused, and so are names that
//! others control (DNS rebinding).

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use subtle::ConstantTimeEq as _;

/// A secret of 128 random bits that admits a browser.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new token from the kernel's random source.
    ///
    /// # Errors
    /// If the kernel provides no random numbers (`getrandom(2)`).
    pub fn random() -> std::io::Result<Token> {
        let mut bytes = [0u8; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Token(bytes.iter().map(|b| format!("{b:02x}")).collect()))
    }

    /// A token with a known secret.
    #[cfg(any(fuzzing, debug_assertions))]
    pub(crate) fn of(secret: &str) -> Token {
        Token(secret.to_owned())
    }

    /// The secret: 32 hexadecimal digits.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Compares `guess` with the secret in constant time.
    pub(crate) fn is(&self, guess: &str) -> bool {
        self.0.as_bytes().ct_eq(guess.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The checks of each request.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) bound: SocketAddr,
    /// `None` admits everybody: only for the fuzzer.
    pub(crate) token: Option<Token>,
}

/// An admitted request, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// For one of the page's own files, which are the same for all users.
    Public,
    /// With the token.
    Authenticated,
}

/// A refused request.
pub(crate) type Rejection = (StatusCode, String);

impl Guard {
    pub(crate) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Admitted, Rejection> {
        let host = self.check_host(uri, headers)?;
        check_site(method, uri, headers, &host)?;
        if *method == Method::POST {
            let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
            if kind.split(';').next().is_none_or(|k| !k.trim().eq_ignore_ascii_case("application/json")) {
                return Err(rejection(
                    StatusCode::UNSUPPORTED_MEDIA_TYPE,
                    "send JSON with 'Content-Type: application/json'",
                ));
            }
        }
        self.check_token(uri, headers)
    }

    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<String, Rejection> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (uri.authority(), hosts.next(), hosts.next()) {
            (Some(authority), _, None) => authority.to_string(),
            (None, Some(value), None) => value.to_str().unwrap_or_default().to_string(),
            _ => return Err(rejection(StatusCode::BAD_REQUEST, "exactly one Host header is needed")),
        };
        let name = host_name(&host);
        if name.is_empty() {
            return Err(rejection(StatusCode::BAD_REQUEST, "the Host header is not a host and port"));
        }
        // Attackers may make their own names resolve to this address (DNS rebinding), so on
        // loopback only loopback names are accepted. With other addresses the names are not known;
        // there the token protects.
        let own = name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip == self.bound.ip());
        if self.bound.ip().is_loopback() && !own {
            return Err(rejection(
                StatusCode::FORBIDDEN,
                &format!("this page answers to localhost and loopback addresses only, not to '{name}'"),
            ));
        }
        Ok(host)
    }

    /// The page's own files hold no secrets, and a browser cannot send the token before it has
    /// loaded them: the token is in the address's fragment, which is not sent. It is not a cookie,
    /// since a browser sends the cookies of one port to all ports of the same host, and so to
    /// servers of other users of this machine.
    fn check_token(&self, uri: &Uri, headers: &HeaderMap) -> Result<Admitted, Rejection> {
        let Some(token) = &self.token else { return Ok(Admitted::Authenticated) };
        let in_query =
            uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.strip_prefix("token="));
        let bearer = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let in_header = bearer.and_then(|v| v.strip_prefix("Bearer "));
        if in_header.into_iter().chain(in_query).any(|guess| token.is(guess)) {
            return Ok(Admitted::Authenticated);
        }
        if crate::assets::has(uri.path()) {
            return Ok(Admitted::Public);
        }
        Err(rejection(
            StatusCode::UNAUTHORIZED,
            "a token is needed: open the address that yuzuri printed, which ends in #token=…, or send the token as \
             'Authorization: Bearer TOKEN'",
        ))
    }
}

fn rejection(status: StatusCode, why: &str) -> Rejection {
    (status, why.to_string())
}

/// Browsers state the origin of a request; requests from other sites are refused.
fn check_site(method: &Method, uri: &Uri, headers: &HeaderMap, host: &str) -> Result<(), Rejection> {
    let other = || rejection(StatusCode::FORBIDDEN, "requests from other sites are refused");
    if method != Method::GET
        && method != Method::HEAD
        && let Some(origin) = headers.get(header::ORIGIN)
    {
        let origin = origin.to_str().unwrap_or_default();
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if authority.is_none_or(|a| !a.eq_ignore_ascii_case(host)) {
            return Err(other());
        }
    }
    if uri.path().starts_with("/api/")
        && let Some(site) = headers.get("sec-fetch-site")
        && site != "same-origin"
        && site != "none"
    {
        return Err(other());
    }
    Ok(())
}

/// The host of `host[:port]`, without brackets.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').map_or("", |(name, _)| name);
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn ask(
        guard: &Guard,
        method: Method,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> Result<Admitted, StatusCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap());
        }
        guard.check(&method, &uri.parse().unwrap(), &map).map_err(|(status, _)| status)
    }

    fn loopback() -> Guard {
        Guard { bound: "127.0.0.1:8080".parse().unwrap(), token: None }
    }

    #[test]
    fn on_loopback_only_its_own_names_are_answered() {
        for host in
            ["localhost:8080", "LOCALHOST", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "localhost:1"]
        {
            assert!(ask(&loopback(), Method::GET, "/", &[("host", host)]).is_ok(), "{host}");
        }
        for host in [
            "evil.example:8080",
            "localhost.evil.example",
            "10.0.0.1",
            "[2001:db8::1]:80",
            "127.0.0.1.nip.io",
        ] {
            assert_eq!(
                ask(&loopback(), Method::GET, "/", &[("host", host)]),
                Err(StatusCode::FORBIDDEN),
                "{host}"
            );
        }
        assert_eq!(ask(&loopback(), Method::GET, "/", &[]), Err(StatusCode::BAD_REQUEST));
        let two = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(ask(&loopback(), Method::GET, "/", &two), Err(StatusCode::BAD_REQUEST));
    }

    #[test]
    fn other_sites_may_not_post_nor_read() {
        let json = ("content-type", "application/json");
        let host = ("host", "localhost:8080");
        let post = |more: &[(&str, &str)]| {
            ask(&loopback(), Method::POST, "/api/filter", &[&[host, json], more].concat())
        };
        assert!(post(&[("origin", "http://localhost:8080")]).is_ok());
        assert!(post(&[]).is_ok());
        assert_eq!(post(&[("origin", "http://localhost:9999")]), Err(StatusCode::FORBIDDEN));
        assert_eq!(post(&[("origin", "http://evil.example")]), Err(StatusCode::FORBIDDEN));
        assert_eq!(post(&[("origin", "null")]), Err(StatusCode::FORBIDDEN));
        assert_eq!(post(&[("sec-fetch-site", "cross-site")]), Err(StatusCode::FORBIDDEN));
        let form = [host, ("content-type", "text/plain")];
        assert_eq!(
            ask(&loopback(), Method::POST, "/api/filter", &form),
            Err(StatusCode::UNSUPPORTED_MEDIA_TYPE)
        );
    }

    #[test]
    fn the_token_is_accepted_in_a_header_or_query_and_not_in_a_cookie() {
        let token = Token::random().unwrap();
        for bound in ["0.0.0.0:80", "127.0.0.1:80"] {
            let guard = Guard { bound: bound.parse().unwrap(), token: Some(token.clone()) };
            let host = ("host", "localhost");
            let secret = token.secret();
            let bearer = format!("Bearer {secret}");
            let authenticated = Ok(Admitted::Authenticated);
            assert_eq!(
                ask(&guard, Method::GET, "/api/x", &[host, ("authorization", &bearer)]),
                authenticated
            );
            assert_eq!(
                ask(&guard, Method::GET, &format!("/api/x?a=b&token={secret}"), &[host]),
                authenticated
            );
            for own in ["/", "/app.js", "/app.css", "/?token="] {
                assert_eq!(ask(&guard, Method::GET, own, &[host]), Ok(Admitted::Public), "{own}");
            }
            let cookie = format!("yuzuri_80={secret}; token={secret}");
            for bad in
                ["/api/session", "/api/", "/nowhere", "/app.js/", "/api/../app.js", "//app.js", "/%61pp.js"]
            {
                let refused = Err(StatusCode::UNAUTHORIZED);
                assert_eq!(ask(&guard, Method::GET, bad, &[host, ("cookie", &cookie)]), refused, "{bad}");
            }
            assert!(!format!("{guard:?}").contains(secret));
        }
    }

    proptest! {
        #[test]
        fn only_the_token_itself_is_accepted(guess in "\\PC{0,40}") {
            let token = Token("0123456789abcdef0123456789abcdef".into());
            prop_assert_eq!(token.is(&guess), guess == token.0);
        }

        #[test]
        fn any_host_header_is_parsed_without_panic(host in "[ -~]{0,60}") {
            let _ = ask(&loopback(), Method::GET, "/", &[("host", &host)]);
        }
    }
}
