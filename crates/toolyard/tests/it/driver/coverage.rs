//! How each scenario of the official suite is run, for each of its two sets of requirements.

use super::context::ScenarioContext;
use super::scenarios::{
    dns_rebinding, input_required, lifecycle, prompts, resources, server_requests, stateless, subscriptions,
    task_input, tasks, tools,
};

pub enum Coverage {
    Run(fn(&ScenarioContext)),
    /// Tests Streamable HTTP itself; with the reason why it does not apply elsewhere.
    HttpOnly(&'static str),
    /// Needs an address; with the reason why it does not apply to pipes.
    NeedsAddress(fn(&ScenarioContext), &'static str),
}

use Coverage::{HttpOnly, NeedsAddress, Run};

/// A set of requirements: the suite's names, in its order.
pub type Set = &'static [(&'static str, Coverage)];

pub const HANDSHAKE: Set = &[
    ("server-initialize", Run(lifecycle::initialize)),
    ("logging-set-level", Run(lifecycle::set_level)),
    ("ping", Run(lifecycle::ping)),
    ("completion-complete", Run(prompts::completion)),
    ("tools-list", Run(tools::list)),
    ("tools-call-simple-text", Run(tools::simple_text)),
    ("tools-call-image", Run(tools::image)),
    ("tools-call-audio", Run(tools::audio)),
    ("tools-call-embedded-resource", Run(tools::embedded_resource)),
    ("tools-call-mixed-content", Run(tools::mixed_content)),
    ("tools-call-with-logging", Run(tools::logging)),
    ("tools-call-error", Run(tools::error)),
    ("tools-call-with-progress", Run(tools::progress)),
    ("tools-call-sampling", Run(server_requests::sampling)),
    ("tools-call-elicitation", Run(server_requests::elicitation)),
    ("elicitation-sep1034-defaults", Run(server_requests::defaults)),
    ("server-sse-multiple-streams", Run(lifecycle::several_at_once)),
    ("elicitation-sep1330-enums", Run(server_requests::enums)),
    ("resources-list", Run(resources::list)),
    ("resources-read-text", Run(resources::read_text)),
    ("resources-read-binary", Run(resources::read_binary)),
    ("resources-templates-read", Run(resources::read_template)),
    ("resources-subscribe", Run(resources::subscribe)),
    ("resources-unsubscribe", Run(resources::unsubscribe)),
    ("prompts-list", Run(prompts::list)),
    ("prompts-get-simple", Run(prompts::simple)),
    ("prompts-get-with-args", Run(prompts::with_arguments)),
    ("prompts-get-embedded-resource", Run(prompts::embedded_resource)),
    ("prompts-get-with-image", Run(prompts::with_image)),
    (
        "dns-rebinding-protection",
        NeedsAddress(
            dns_rebinding::rebinding,
            "Host and Origin are headers; pipes have no address to rebind",
        ),
    ),
    (
        "server-session-lifecycle",
        HttpOnly("a session that ends by DELETE; elsewhere the process or the connection is the session"),
    ),
    ("json-schema-2020-12", Run(tools::full_json_schema)),
    (
        "server-sse-polling",
        HttpOnly("a stream that is closed and taken up again; elsewhere its end is the end of the session"),
    ),
];

pub const STATELESS: Set = &[
    ("server-stateless", Run(stateless::server_stateless)),
    ("completion-complete", Run(prompts::completion)),
    ("tools-list", Run(tools::list)),
    ("tools-call-simple-text", Run(tools::simple_text)),
    ("tools-call-image", Run(tools::image)),
    ("tools-call-audio", Run(tools::audio)),
    ("tools-call-embedded-resource", Run(tools::embedded_resource)),
    ("tools-call-mixed-content", Run(tools::mixed_content)),
    ("tools-call-error", Run(tools::error)),
    ("tools-call-with-progress", Run(tools::progress)),
    ("server-sse-multiple-streams", Run(lifecycle::several_at_once)),
    ("resources-list", Run(resources::list)),
    ("resources-read-text", Run(resources::read_text)),
    ("resources-read-binary", Run(resources::read_binary)),
    ("resources-templates-read", Run(resources::read_template)),
    ("sep-2164-resource-not-found", Run(resources::not_found)),
    ("prompts-list", Run(prompts::list)),
    ("prompts-get-simple", Run(prompts::simple)),
    ("prompts-get-with-args", Run(prompts::with_arguments)),
    ("prompts-get-embedded-resource", Run(prompts::embedded_resource)),
    ("prompts-get-with-image", Run(prompts::with_image)),
    (
        "dns-rebinding-protection",
        NeedsAddress(
            dns_rebinding::rebinding,
            "Host and Origin are headers; pipes have no address to rebind",
        ),
    ),
    ("caching", Run(resources::caching)),
    ("input-required-result-basic-elicitation", Run(input_required::basic_elicitation)),
    ("input-required-result-basic-sampling", Run(input_required::basic_sampling)),
    ("input-required-result-basic-list-roots", Run(input_required::basic_roots)),
    ("input-required-result-request-state", Run(input_required::request_state)),
    ("input-required-result-multiple-input-requests", Run(input_required::multiple_inputs)),
    ("input-required-result-multi-round", Run(input_required::multi_round)),
    ("input-required-result-missing-input-response", Run(input_required::missing_response)),
    ("input-required-result-non-tool-request", Run(input_required::of_a_prompt)),
    ("input-required-result-result-type", Run(input_required::result_type)),
    ("input-required-result-unsupported-methods", Run(input_required::unsupported_methods)),
    ("input-required-result-tampered-state", Run(input_required::tampered_state)),
    ("input-required-result-capability-check", Run(input_required::capability_check)),
    ("input-required-result-ignore-extra-params", Run(input_required::extra_responses)),
    ("input-required-result-validate-input", Run(input_required::invalid_responses)),
    ("tasks-lifecycle", Run(tasks::lifecycle)),
    ("tasks-capability-negotiation", Run(tasks::capability_negotiation)),
    ("tasks-wire-fields", Run(tasks::wire_fields)),
    ("tasks-request-state-removal", Run(tasks::no_request_state)),
    ("tasks-mrtr-input", Run(task_input::input)),
    ("tasks-request-headers", HttpOnly("Mcp-Method and Mcp-Name are headers that repeat the body")),
    ("tasks-dispatch-and-envelope", Run(task_input::dispatch)),
    ("tasks-status-notifications", Run(subscriptions::task_states)),
    ("tasks-required-task-error", Run(tasks::required_task)),
    ("tasks-mrtr-composition", Run(task_input::composition)),
    ("json-schema-2020-12", Run(tools::full_json_schema)),
    ("http-header-validation", HttpOnly("headers that must repeat the body")),
    ("http-custom-header-server-validation", HttpOnly("headers that must repeat the arguments")),
];

/// Scenarios that the suite lacks.
pub const OURS_HANDSHAKE: Set = &[
    ("cancellation", Run(lifecycle::cancellation)),
    ("broken-rules", Run(lifecycle::broken_rules)),
    ("one-handshake", Run(lifecycle::one_handshake)),
    ("both-eras", Run(lifecycle::both_eras)),
    ("changed-tools", Run(subscriptions::changed_tools_in_a_session)),
];

pub const OURS_STATELESS: Set = &[
    ("cancellation", Run(lifecycle::cancellation)),
    ("broken-rules", Run(lifecycle::broken_rules)),
    ("resource-updates", Run(resources::updates)),
];

pub const OLDER: Set = &[
    ("older-revision", Run(lifecycle::older_revision)),
    ("cancellation", Run(lifecycle::cancellation)),
    ("broken-rules", Run(lifecycle::broken_rules)),
];
