//! The policy service over HTTP: one question, one answer of bounded size.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use interlock_api::client::{careful_client, innermost_cause};
use interlock_control::dispatch_policy::{DispatchPolicy, PolicyService, ServiceConfig};
use interlock_model::dispatch_policy::{Answer, Question, ServiceTerms};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};

use crate::config::{DispatchPolicyChoices, PolicyServiceChoices};
use crate::exit::{Failure, Result};

const TIMEOUT: Duration = Duration::from_secs(2);
const QUESTIONS_MAX: usize = 16;
const FAILURES_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 64 * 1024;

struct HttpService {
    client: Client,
    url: Url,
}

#[async_trait]
impl PolicyService for HttpService {
    async fn ask(&self, question: &Question) -> std::result::Result<Answer, String> {
        // The error may repeat the URL, which may contain a secret.
        let failed = |error: reqwest::Error| innermost_cause(&error.without_url());
        let mut answer = self.client.post(self.url.clone()).json(question).send().await.map_err(failed)?;
        if !answer.status().is_success() {
            return Err(format!("it answered {}", answer.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            body.extend_from_slice(&chunk);
            if body.len() > ANSWER_BYTES_MAX {
                return Err(format!("its answer is longer than {ANSWER_BYTES_MAX} bytes"));
            }
        }
        serde_json::from_slice(&body).map_err(|error| format!("its answer cannot be read: {error}"))
    }
}

/// The configured policy, with a client of its service.
pub(super) fn policy(choices: &DispatchPolicyChoices) -> Result<DispatchPolicy> {
    let service = choices.service.as_ref().map(service).transpose()?;
    Ok(DispatchPolicy { rules: choices.rules.clone(), service })
}

fn service(choices: &PolicyServiceChoices) -> Result<ServiceConfig> {
    let wrong = |what: String| Failure::Usage(format!("dispatch_policy.service: {what}"));
    let url = Url::parse(&choices.url).map_err(|error| wrong(format!("url: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("url: expected an http or https URL".to_owned()));
    }
    let place = format!("{}{}", url.origin().ascii_serialization(), url.path());
    let client = careful_client(&url, headers(choices).map_err(wrong)?).build();
    let client = client.map_err(|error| wrong(error.to_string()))?;
    let time = |given: Option<std::num::NonZeroU64>, default| {
        given.map_or(default, |given| Duration::from_millis(given.get()))
    };
    Ok(ServiceConfig {
        client: Arc::new(HttpService { client, url }),
        place,
        terms: ServiceTerms { failure: choices.failure, tenants: choices.tenants.clone() },
        timeout: time(choices.timeout_ms, TIMEOUT),
        questions_max: choices.questions_max.map_or(QUESTIONS_MAX, std::num::NonZeroUsize::get),
        failures_max: choices.failures_max.map_or(FAILURES_MAX, std::num::NonZeroU32::get),
        pause: time(choices.pause_ms, PAUSE),
    })
}

fn headers(choices: &PolicyServiceChoices) -> std::result::Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let secret = |name: &str, text: &str| {
        let value = HeaderValue::from_str(text);
        let mut value =
            value.map_err(|_| format!("{name} has characters that are not allowed in a header"))?;
        value.set_sensitive(true);
        Ok::<_, String>(value)
    };
    for (name, value) in &choices.headers {
        let key =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is not a header name"))?;
        headers.insert(key, secret(name, &value.0)?);
    }
    let bearer = match &choices.bearer_file {
        Some(file) => {
            let text =
                std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
            Some(text.trim().to_owned())
        }
        None => choices.bearer.as_ref().map(|bearer| bearer.0.clone()),
    };
    if let Some(bearer) = bearer {
        headers.insert(AUTHORIZATION, secret("the token", &format!("Bearer {bearer}"))?);
    }
    Ok(headers)
}
