//! Issues, which a tracker has, and is asked for by GraphQL; step 4 moves the call.

use serde_json::{Value, json};

use crate::service_client::{Answer, CallError, ServiceClient};

const PATH: &str = "/graphql";
const ISSUE: &str = "query Issue($id: String!) { issue(id: $id) { id identifier title description \
                     url priority state { name } assignee { name } } }";

/// An issue as it is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Issue(Value);

impl Issue {
    /// As it is answered.
    #[must_use]
    pub fn into_json(self) -> Value {
        self.0
    }
}

/// What came of asking for an issue.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// This.
    Issue(Issue),
    /// There is none with that id.
    Nothing,
    /// The tracker said something else; this is what, for the log.
    NotUnderstood(String),
}

/// Asks the tracker for an issue, by its id or identifier.
///
/// # Errors
/// [`CallError`] if there is no answer.
pub async fn issue(service: &dyn ServiceClient, id: &str) -> Result<Found, CallError> {
    let asked = json!({ "query": ISSUE, "variables": { "id": id } });
    Ok(read(&service.post(PATH, &asked).await?))
}

/// GraphQL answers 200 and errors in the body; a tracker may say 400 for the same.
fn read(answer: &Answer) -> Found {
    let body = answer.json();
    let error = body["errors"][0]["message"].as_str();
    let data = body.get("data").and_then(Value::as_object);
    match (
        answer.status,
        data.and_then(|data| data.get("issue")),
        error,
    ) {
        (200, Some(Value::Object(_)), None) => match resolve(&body["data"]["issue"]) {
            Some(issue) => Found::Issue(issue),
            None => Found::NotUnderstood("an issue without id or title".to_owned()),
        },
        (200, Some(Value::Null), None) => Found::Nothing,
        (200 | 400, _, Some(error)) if error.starts_with("Entity not found") => Found::Nothing,
        (status, _, error) => {
            let error = error.unwrap_or("no data");
            Found::NotUnderstood(format!("status {status}, {error}"))
        }
    }
}

/// Flat, as clients of this service want it.
fn resolve(issue: &Value) -> Option<Issue> {
    let required = |field: &str| issue[field].as_str();
    let optional = |value: &Value| value.as_str().map(str::to_owned);
    Some(Issue(json!({
        "id": required("id")?,
        "identifier": required("identifier")?,
        "title": required("title")?,
        "description": optional(&issue["description"]),
        "url": optional(&issue["url"]),
        "priority": issue["priority"].as_u64(),
        "status": optional(&issue["state"]["name"]),
        "assignee": optional(&issue["assignee"]["name"]),
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, body: &str) -> Found {
        read(&Answer {
            status,
            body: body.as_bytes().to_vec(),
        })
    }

    #[test]
    fn an_issue_is_flattened() {
        let body = r#"{"data":{"issue":{"id":"7","identifier":"ENG-7","title":"t","priority":2,"state":{"name":"Done"},"assignee":null}}}"#;
        let Found::Issue(issue) = answered(200, body) else {
            panic!("an issue");
        };
        assert_eq!(
            issue.into_json(),
            json!({ "id": "7", "identifier": "ENG-7", "title": "t", "description": null,
                    "url": null, "priority": 2, "status": "Done", "assignee": null })
        );
    }

    #[test]
    fn what_is_not_there_is_told_from_what_is_wrong() {
        for (status, body) in [
            (200, r#"{"data":{"issue":null}}"#),
            (
                200,
                r#"{"data":null,"errors":[{"message":"Entity not found: Issue"}]}"#,
            ),
            (400, r#"{"errors":[{"message":"Entity not found: Issue"}]}"#),
        ] {
            assert_eq!(answered(status, body), Found::Nothing, "{body}");
        }
        for (status, body) in [
            (200, ""),
            (200, "{}"),
            (200, "[]"),
            (200, r#"{"data":{}}"#),
            (200, r#"{"data":null}"#),
            (200, r#"{"data":{"issue":7}}"#),
            (200, r#"{"data":{"issue":{"id":"7"}}}"#),
            (
                200,
                r#"{"data":{"issue":null},"errors":[{"message":"internal"}]}"#,
            ),
            (401, r#"{"errors":[{"message":"no key"}]}"#),
            (500, r#"{"data":{"issue":null}}"#),
            (302, ""),
        ] {
            let found = answered(status, body);
            assert!(
                matches!(found, Found::NotUnderstood(_)),
                "{body}: {found:?}"
            );
        }
    }
}
