//! Request bodies: bounded in size, depth and time, and an object or nothing: JSON; documents of people also YAML.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use http_body_util::BodyExt;
use interlock_api::Code;
use interlock_model::TenantId;
use interlock_model::document::{DocumentText, Format, InvalidDocument, Strict, TextBounds};
use interlock_model::json_text::{self, RefusedText};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::error::Refusal;
use crate::settings::Settings;
use crate::state::App;

/// A required body.
pub(crate) struct Payload<T>(pub T);

/// An optional body.
pub(crate) struct OptionalPayload<T>(pub T);

/// A document that a person wrote, as JSON or YAML, with its text for errors that name the line.
pub(crate) struct Document<T> {
    pub value: T,
    pub text: DocumentText,
}

/// Bodies up to this size are parsed in passing. Larger ones would keep an async thread from everybody else's requests.
const PARSED_IN_PASSING_MAX: usize = 64 << 10;

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Payload<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let body = read(request, app).await?;
        if body.is_empty() {
            return Err(Refusal::invalid("a JSON body is needed, and there is none"));
        }
        parse(body, &app.settings).await.map(Self)
    }
}

impl<T: DeserializeOwned + Default + Send + 'static> FromRequest<App> for OptionalPayload<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let body = read(request, app).await?;
        parse_optional(body, &app.settings).await.map(Self)
    }
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Document<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &App) -> Result<Self, Refusal> {
        let format = format(request.headers());
        let expected =
            "the body must be JSON or YAML in UTF-8: send it as application/json or application/yaml";
        let body = receive(request, app, format.is_some(), expected).await?;
        let Some(format) = format.filter(|_| !body.is_empty()) else {
            return Err(Refusal::invalid("a document is needed, and there is none"));
        };
        let settings = &app.settings;
        let bounds = TextBounds { bytes: settings.body_bytes_max, levels: settings.nesting_max };
        let bytes = body.len();
        let read = move || {
            let text = DocumentText::new(&body, format, bounds)?;
            Ok(Self { value: text.read()?, text })
        };
        let read = in_passing_or_apart(bytes, read).await?;
        read.map_err(|invalid: InvalidDocument| Refusal::invalid(format!("invalid document: {invalid}")))
    }
}

pub(crate) async fn parse_optional<T: DeserializeOwned + Default + Send + 'static>(
    body: Bytes,
    settings: &Settings,
) -> Result<T, Refusal> {
    if body.is_empty() { Ok(T::default()) } else { parse(body, settings).await }
}

/// The whole body of JSON, once the tenant may bring it.
pub(crate) async fn read(request: Request, app: &App) -> Result<Bytes, Refusal> {
    let is_accepted = is_json(request.headers());
    let expected = "the body must be JSON in UTF-8: send it with Content-Type: application/json";
    receive(request, app, is_accepted, expected).await
}

/// The whole body, if it is within bounds and not of another media type, once the tenant may bring it.
async fn receive(request: Request, app: &App, is_accepted: bool, expected: &str) -> Result<Bytes, Refusal> {
    let settings = &app.settings;
    let (parts, body) = request.into_parts();
    let declared = declared_length(&parts.headers);
    if declared.is_some_and(|bytes| bytes > settings.body_bytes_max) && parts.headers.contains_key(EXPECT) {
        // The client waits for the answer before it sends the body, so nothing need be read.
        return Err(too_large(settings));
    }
    let arrived = tokio::time::timeout(settings.body_timeout, gather(body, settings)).await;
    let body = arrived.map_err(|_| {
        let seconds = settings.body_timeout.as_secs_f64();
        Refusal::new(Code::RequestTimeout, format!("the body did not arrive within {seconds} s"))
    })??;
    if !body.is_empty() && !is_accepted {
        return Err(Refusal::new(Code::UnsupportedMediaType, expected));
    }
    if let Some(tenant) = parts.extensions.get::<TenantId>() {
        app.ingest.pass(tenant, body.len()).await?;
    }
    Ok(body)
}

/// A JSON object of the right type, or an error that says what is wrong and where.
pub(crate) async fn parse<T: DeserializeOwned + Send + 'static>(
    body: Bytes,
    settings: &Settings,
) -> Result<T, Refusal> {
    let nesting_max = settings.nesting_max;
    in_passing_or_apart(body.len(), move || parsed(&body, nesting_max)).await?
}

async fn in_passing_or_apart<T: Send + 'static>(
    bytes: usize,
    parse: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    if bytes <= PARSED_IN_PASSING_MAX {
        return Ok(parse());
    }
    let parsing = tokio::task::spawn_blocking(parse);
    parsing.await.map_err(|error| Refusal::unavailable(&format!("the body could not be parsed: {error}")))
}

fn parsed<T: DeserializeOwned>(body: &[u8], nesting_max: usize) -> Result<T, Refusal> {
    json_text::check(body, nesting_max).map_err(|refused| match refused {
        RefusedText::TooDeep(_) => Refusal::invalid(format!("the body is {refused}")),
        RefusedText::DuplicateKey(_) | RefusedText::ReservedKey(_) => {
            Refusal::invalid(format!("invalid body: {refused}"))
        }
    })?;
    let value = shaped(body).map_err(|error| unreadable::<T>(body, &error))?;
    // Some types would accept any JSON.
    if is_object(body) { Ok(value) } else { Err(no_object()) }
}

fn is_object(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

fn shaped<T: DeserializeOwned>(body: &[u8]) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = T::deserialize(Strict(&mut reader))?;
    reader.end()?;
    Ok(value)
}

/// The deserializer stops at the first unexpected value, and reports some of them as a syntax error, such as a number that
/// is too large for its field. So the syntax is checked again.
fn unreadable<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> Refusal {
    match serde_json::from_slice::<IgnoredAny>(body) {
        Ok(IgnoredAny) if !is_object(body) => no_object(),
        Ok(IgnoredAny) => match place_of::<T>(body, error) {
            Some(place) => refusal(&format!("invalid body: {place}"), error),
            None => refusal("invalid body", error),
        },
        Err(broken) => refusal("the body is not valid JSON", &broken),
    }
}

/// The member that is not as expected, unless the error names it. Only a refused body is read again for it.
fn place_of<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> Option<String> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let found = serde_path_to_error::deserialize::<_, T>(Strict(&mut reader)).err()?;
    let mut segments = found.path().iter();
    let last = segments.next_back()?.to_string();
    let path: String = found.path().to_string().chars().take(200).collect();
    let is_named = error.to_string().contains(&format!("`{last}`"));
    (!is_named && path != ".").then_some(path)
}

fn no_object() -> Refusal {
    Refusal::invalid("the body must be a JSON object")
}

fn refusal(kind: &str, error: &serde_json::Error) -> Refusal {
    // The error may quote a whole value of the body.
    let mut sentence: String = error.to_string().chars().take(500).collect();
    if error.line() > 0 && !sentence.contains(" at line ") {
        sentence = format!("{sentence}… at line {} column {}", error.line(), error.column());
    }
    Refusal::invalid(format!("{kind}: {sentence}"))
}

fn declared_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Absent is not JSON: a page of any site can make a browser send such a body.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    format(headers) == Some(Format::Json)
}

fn format(headers: &HeaderMap) -> Option<Format> {
    let sent = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let mut parts = sent.split(';').map(|part| part.trim().to_ascii_lowercase());
    let essence = parts.next().unwrap_or_default();
    let is_any_application = |suffix| essence.starts_with("application/") && essence.ends_with(suffix);
    let format = if essence == "application/json" || is_any_application("+json") {
        Format::Json
    } else if matches!(
        essence.as_str(),
        "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml"
    ) || is_any_application("+yaml")
    {
        Format::Yaml
    } else {
        return None;
    };
    // Other text than UTF-8 would be read as something else than was meant.
    let is_utf8 = parts.all(|part| {
        part.split_once('=').is_none_or(|(name, value)| name.trim() != "charset" || is_utf8(value))
    });
    is_utf8.then_some(format)
}

fn is_utf8(charset: &str) -> bool {
    matches!(charset.trim().trim_matches('"'), "utf-8" | "utf8" | "us-ascii")
}

/// Reads to the end. A body that is too large is read up to a second bound, because a client that sends before it reads
/// would miss the answer.
async fn gather(mut body: Body, settings: &Settings) -> Result<Bytes, Refusal> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut bytes = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Refusal::invalid(format!("the body did not arrive whole: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        bytes = bytes.saturating_add(data.len());
        if bytes > settings.body_bytes_discarded_max {
            break;
        }
        if bytes > settings.body_bytes_max {
            (first, rest) = (Bytes::new(), BytesMut::new());
        } else if first.is_empty() && rest.is_empty() {
            // Almost every body is one frame: no copy.
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
    }
    if bytes > settings.body_bytes_max {
        return Err(too_large(settings));
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

fn too_large(settings: &Settings) -> Refusal {
    let mebibytes = settings.body_bytes_max / (1024 * 1024);
    Refusal::new(Code::PayloadTooLarge, format!("the body is too large: at most {mebibytes} MiB are taken"))
}
