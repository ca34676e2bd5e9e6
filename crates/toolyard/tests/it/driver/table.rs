//! Which scenario of the official suite is played how, for each of its two sets of requirements.

use super::scenarios::{
    lifecycle, prompts, questions, resources, rounds, stateless, subscriptions, task_questions, tasks, tools,
};
use super::stage::Stage;

pub enum How {
    Played(fn(&Stage)),
    /// It tests HTTP itself; the reason why it means nothing elsewhere.
    HttpOnly(&'static str),
}

use How::{HttpOnly, Played};

/// A set of requirements: the suite's names, in its order.
pub type Set = &'static [(&'static str, How)];

pub const HANDSHAKE: Set = &[
    ("server-initialize", Played(lifecycle::initialize)),
    ("logging-set-level", Played(lifecycle::set_level)),
    ("ping", Played(lifecycle::ping)),
    ("completion-complete", Played(prompts::completion)),
    ("tools-list", Played(tools::list)),
    ("tools-call-simple-text", Played(tools::simple_text)),
    ("tools-call-image", Played(tools::image)),
    ("tools-call-audio", Played(tools::audio)),
    ("tools-call-embedded-resource", Played(tools::embedded_resource)),
    ("tools-call-mixed-content", Played(tools::mixed_content)),
    ("tools-call-with-logging", Played(tools::logging)),
    ("tools-call-error", Played(tools::error)),
    ("tools-call-with-progress", Played(tools::progress)),
    ("tools-call-sampling", Played(questions::sampling)),
    ("tools-call-elicitation", Played(questions::elicitation)),
    ("elicitation-sep1034-defaults", Played(questions::defaults)),
    ("server-sse-multiple-streams", Played(lifecycle::several_at_once)),
    ("elicitation-sep1330-enums", Played(questions::enums)),
    ("resources-list", Played(resources::list)),
    ("resources-read-text", Played(resources::read_text)),
    ("resources-read-binary", Played(resources::read_binary)),
    ("resources-templates-read", Played(resources::read_template)),
    ("resources-subscribe", Played(resources::subscribe)),
    ("resources-unsubscribe", Played(resources::unsubscribe)),
    ("prompts-list", Played(prompts::list)),
    ("prompts-get-simple", Played(prompts::simple)),
    ("prompts-get-with-args", Played(prompts::with_arguments)),
    ("prompts-get-embedded-resource", Played(prompts::embedded_resource)),
    ("prompts-get-with-image", Played(prompts::with_image)),
    ("dns-rebinding-protection", HttpOnly("Host and Origin are headers; pipes have no address to rebind")),
    (
        "server-session-lifecycle",
        HttpOnly("a session that ends by DELETE; on pipes the process is the session"),
    ),
    ("json-schema-2020-12", Played(tools::full_json_schema)),
    (
        "server-sse-polling",
        HttpOnly("a stream that is closed and taken up again; pipes are never closed between"),
    ),
];

pub const STATELESS: Set = &[
    ("server-stateless", Played(stateless::server_stateless)),
    ("completion-complete", Played(prompts::completion)),
    ("tools-list", Played(tools::list)),
    ("tools-call-simple-text", Played(tools::simple_text)),
    ("tools-call-image", Played(tools::image)),
    ("tools-call-audio", Played(tools::audio)),
    ("tools-call-embedded-resource", Played(tools::embedded_resource)),
    ("tools-call-mixed-content", Played(tools::mixed_content)),
    ("tools-call-error", Played(tools::error)),
    ("tools-call-with-progress", Played(tools::progress)),
    ("server-sse-multiple-streams", Played(lifecycle::several_at_once)),
    ("resources-list", Played(resources::list)),
    ("resources-read-text", Played(resources::read_text)),
    ("resources-read-binary", Played(resources::read_binary)),
    ("resources-templates-read", Played(resources::read_template)),
    ("sep-2164-resource-not-found", Played(resources::not_found)),
    ("prompts-list", Played(prompts::list)),
    ("prompts-get-simple", Played(prompts::simple)),
    ("prompts-get-with-args", Played(prompts::with_arguments)),
    ("prompts-get-embedded-resource", Played(prompts::embedded_resource)),
    ("prompts-get-with-image", Played(prompts::with_image)),
    ("dns-rebinding-protection", HttpOnly("Host and Origin are headers; pipes have no address to rebind")),
    ("caching", Played(resources::caching)),
    ("input-required-result-basic-elicitation", Played(rounds::basic_elicitation)),
    ("input-required-result-basic-sampling", Played(rounds::basic_sampling)),
    ("input-required-result-basic-list-roots", Played(rounds::basic_roots)),
    ("input-required-result-request-state", Played(rounds::request_state)),
    ("input-required-result-multiple-input-requests", Played(rounds::multiple_inputs)),
    ("input-required-result-multi-round", Played(rounds::multi_round)),
    ("input-required-result-missing-input-response", Played(rounds::missing_response)),
    ("input-required-result-non-tool-request", Played(rounds::of_a_prompt)),
    ("input-required-result-result-type", Played(rounds::result_type)),
    ("input-required-result-unsupported-methods", Played(rounds::unsupported_methods)),
    ("input-required-result-tampered-state", Played(rounds::tampered_state)),
    ("input-required-result-capability-check", Played(rounds::capability_check)),
    ("input-required-result-ignore-extra-params", Played(rounds::extra_responses)),
    ("input-required-result-validate-input", Played(rounds::invalid_responses)),
    ("tasks-lifecycle", Played(tasks::lifecycle)),
    ("tasks-capability-negotiation", Played(tasks::capability_negotiation)),
    ("tasks-wire-fields", Played(tasks::wire_fields)),
    ("tasks-request-state-removal", Played(tasks::no_request_state)),
    ("tasks-mrtr-input", Played(task_questions::input)),
    ("tasks-request-headers", HttpOnly("Mcp-Method and Mcp-Name are headers that repeat the body")),
    ("tasks-dispatch-and-envelope", Played(task_questions::dispatch)),
    ("tasks-status-notifications", Played(subscriptions::task_states)),
    ("tasks-required-task-error", Played(tasks::required_task)),
    ("tasks-mrtr-composition", Played(task_questions::composition)),
    ("json-schema-2020-12", Played(tools::full_json_schema)),
    ("http-header-validation", HttpOnly("headers that must repeat the body")),
    ("http-custom-header-server-validation", HttpOnly("headers that must repeat the arguments")),
];

/// What the suite does not look at.
pub const OURS_HANDSHAKE: Set = &[
    ("cancellation", Played(lifecycle::cancellation)),
    ("broken-rules", Played(lifecycle::broken_rules)),
    ("one-handshake", Played(lifecycle::one_handshake)),
    ("both-eras", Played(lifecycle::both_eras)),
    ("changed-tools", Played(subscriptions::changed_tools_in_a_session)),
];

pub const OURS_STATELESS: Set = &[
    ("cancellation", Played(lifecycle::cancellation)),
    ("broken-rules", Played(lifecycle::broken_rules)),
    ("resource-updates", Played(resources::updates)),
];

pub const OLDER: Set = &[
    ("older-revision", Played(lifecycle::older_revision)),
    ("cancellation", Played(lifecycle::cancellation)),
    ("broken-rules", Played(lifecycle::broken_rules)),
];
