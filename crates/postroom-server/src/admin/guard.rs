//! Who may ask. Before anything is asked of the database.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::problem::Refusal;
use super::tokens::Known;
use super::{Desk, Scope};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Turns away what a page of somebody else makes a browser send here: it comes under a foreign name, or from one.
pub(super) async fn from_here(State(desk): State<Desk>, request: Request, next: Next) -> Result<Response, Refusal> {
    let headers = request.headers();
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let is_ours = |host: &str| desk.0.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host));
    let host = text(HOST).or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    if !host.is_some_and(is_ours) {
        let advice = format!("ask {}", desk.0.hosts.join(" or "));
        return Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "this is not the host that was asked for", advice));
    }
    let bare = |origin: &str| origin.split_once("://").map(|(_, host)| host.to_owned()).unwrap_or_default();
    let origin = text(ORIGIN).map(bare);
    let is_cross_site = text(SITE) == Some("cross-site") && !is_opening_the_page(&request);
    let is_foreign = origin.is_some_and(|origin| !is_ours(&origin));
    if is_cross_site || is_foreign && request.method() != Method::GET {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "the request comes from another site", "send it from here"));
    }
    Ok(next.run(request).await)
}

/// Somebody follows a link to the page. Its files hold no data, and nobody can show them inside of a page of his own.
fn is_opening_the_page(request: &Request) -> bool {
    let is_link = request.headers().get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    is_link && request.method() == Method::GET && matches!(request.uri().path(), "/" | "/admin")
}

/// So long a request may take, a service that waits for messages included: half of it is the longest wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// Gives a request up that takes too long; the slow body of a client too.
pub(super) async fn in_time(request: Request, next: Next) -> Result<Response, Refusal> {
    let late = |_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "the request took too long", "send it again, and faster");
    tokio::time::timeout(PATIENCE, next.run(request)).await.map_err(late)
}

impl Desk {
    /// What is known of the one who asks.
    fn known(&self, headers: &HeaderMap) -> Known {
        let bearer = || {
            let (kind, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
            kind.eq_ignore_ascii_case("bearer").then(|| token.trim())
        };
        bearer().map_or(Known::Nobody, |token| self.0.tokens.look_up(token, self.0.store.clock().now()))
    }

    /// Whether the one who asks may read.
    pub(super) fn may_read(&self, headers: &HeaderMap) -> bool {
        matches!(self.known(headers), Known::May(rights) if rights.may(Scope::Read))
    }
}

/// What a route needs: one of these, or any token at all.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) desk: Desk,
    pub(super) any_of: &'static [Scope],
}

/// Lets those pass whose token may do it.
pub(super) async fn with_token(
    State(Gate { desk, any_of }): State<Gate>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let needed = "send `authorization: Bearer TOKEN`; the node says at its start how to get one";
    match desk.known(request.headers()) {
        Known::May(rights) if any_of.is_empty() || any_of.iter().any(|scope| rights.may(*scope)) => {
            request.extensions_mut().insert(rights);
            Ok(next.run(request).await)
        }
        Known::May(rights) => {
            let words: Vec<_> = any_of.iter().map(|scope| format!("`{}`", scope.as_str())).collect();
            let error = format!("the token {} may not do this", rights.name());
            let advice =
                format!("add {} to `may` in [tokens.{}], or use another token", words.join(" or "), rights.name());
            Err(Refusal::new(StatusCode::FORBIDDEN, error, advice))
        }
        Known::Expired(end) => {
            let error = format!("this token ran out at {end}");
            Err(Refusal::new(StatusCode::UNAUTHORIZED, error, "ask for a new one: `postroom token NAME` makes one"))
        }
        Known::Nobody => Err(Refusal::new(StatusCode::UNAUTHORIZED, "a token is needed", needed)),
    }
}
