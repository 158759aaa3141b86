//! The OpenAPI description, generated from the handlers.
//!
//! A handler declares what is specific to it: parameters, body, success response and conflicts.
//! Responses that any request can get (bad input, not logged in, rate limited, too slow, a store
//! unavailable) are added here, in one place, so that no handler can omit them.

use utoipa::{
    Modify, OpenApi,
    openapi::{
        Components, ContentBuilder, Ref, ResponseBuilder,
        path::{Operation, ParameterIn},
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use super::envelope::Refusal;

/// Name of the security scheme, as in `security(("token" = []))`.
const TOKEN: &str = "token";

/// Base of the description.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Seawall market",
        description = "Shops, flash sales, notes, carts and orders on the Seawall toolkit. Answers are \
                       `{success, code, msg, data, total?}`; ids are text; times are RFC 3339; money is \
                       in cents. Log in with `POST /user/code` and `POST /user/login`, and send the \
                       token as `authorization: Bearer TOKEN`.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(Refusal<'static>)),
    modifiers(&Security)
)]
pub(super) struct Description;

struct Security;

impl Modify for Security {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = api.components.get_or_insert_with(Components::default);
        components.add_security_scheme(TOKEN, SecurityScheme::Http(bearer));
    }
}

/// Adds to every operation the responses that any request can get.
pub(super) fn complete(mut api: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    for item in api.paths.paths.values_mut() {
        let methods = [
            &mut item.get,
            &mut item.put,
            &mut item.post,
            &mut item.delete,
            &mut item.head,
            &mut item.patch,
        ];
        for operation in methods.into_iter().flatten() {
            add_refusals(operation);
        }
    }
    api
}

fn add_refusals(operation: &mut Operation) {
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let in_path =
        parameters.iter().any(|parameter| matches!(parameter.parameter_in, ParameterIn::Path));
    let has_input = !parameters.is_empty() || operation.request_body.is_some();
    let mut common = vec![
        ("408", "It took too long."),
        ("429", "Too many of these; `Retry-After` says when to come back."),
        ("503", "A store is away; `Retry-After` says when to come back."),
    ];
    if has_input {
        common.push(("400", "The input makes no sense; `msg` says why."));
    }
    if in_path {
        common.push(("404", "Not found, or it belongs to another user."));
    }
    if operation.request_body.is_some() {
        common.push(("413", "The body is too large."));
    }
    if operation.security.is_some() {
        common.push(("401", "Nobody is logged in."));
    }
    for (status, description) in common {
        let refusal = ContentBuilder::new().schema(Some(Ref::from_schema_name("Refusal"))).build();
        let response = ResponseBuilder::new()
            .description(description)
            .content("application/json", refusal)
            .build();
        operation.responses.responses.entry(status.to_owned()).or_insert(response.into());
    }
}
