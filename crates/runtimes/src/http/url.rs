//! URL templates: scheme, host and port are fixed in the file; values fill only path and query.

use reqwest::Url;
use toolyard_formats::template::{Input, Target, Template};
use toolyard_protocol::{Error, ErrorKind};

pub struct UrlTemplate {
    template: Template,
    /// Scheme, host and port.
    base: Url,
}

impl UrlTemplate {
    pub fn parse(text: &str) -> Result<UrlTemplate, String> {
        let text = text.trim();
        let scheme = ["https://", "http://"].into_iter().find(|scheme| text.starts_with(scheme));
        let scheme = scheme.ok_or("'entry' must start with https:// or http://")?;
        let rest = &text[scheme.len()..];
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        if authority.contains(['{', '}', '%', '\\']) || authority.is_empty() {
            return Err("host and port in 'entry' must be fixed, without templates".to_owned());
        }
        if authority.contains('@') {
            return Err("'entry' must not contain a user name or password".to_owned());
        }
        let base = Url::parse(&format!("{scheme}{authority}/"))
            .map_err(|error| format!("'entry' is not a URL: {error}"))?;
        let template = Template::parse(text, Target::Url)?;
        if let Some(literal) = template.literal() {
            Url::parse(literal).map_err(|error| format!("'entry' is not a URL: {error}"))?;
        }
        Ok(UrlTemplate { template, base })
    }

    pub fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    pub fn uses_secrets(&self) -> bool {
        !self.template.secrets_used().is_empty()
    }

    pub fn render(&self, input: &Input) -> Result<Url, Error> {
        let text = self.template.render(input)?;
        let refuse = |what: &str| {
            Error::new(ErrorKind::InvalidInput, format!("the arguments do not produce a valid URL: {what}"))
        };
        if has_dot_segment(&text) {
            return Err(refuse("a part of the path would be '.' or '..'"));
        }
        let url = Url::parse(&text).map_err(|error| refuse(&error.to_string()))?;
        // Cannot happen, because values are percent-encoded; checked for safety.
        let same = url.scheme() == self.base.scheme()
            && url.host() == self.base.host()
            && url.port() == self.base.port();
        if !same || !url.username().is_empty() || url.password().is_some() {
            return Err(refuse("the host would change"));
        }
        Ok(url)
    }
}

/// Dot segments change the path, also if their dots are encoded.
fn has_dot_segment(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.split(['/', '\\']).skip(3).any(|segment| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == "." || plain == ".."
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolyard_protocol::Payload;

    fn fill(template: &str, value: &str) -> Result<String, String> {
        let template = UrlTemplate::parse(template)?;
        let mut quoted = Vec::new();
        toolyard_protocol::text::push_json_string(&mut quoted, value);
        let payload = Payload::json([b"{\"v\":".as_slice(), &quoted, b"}"].concat());
        let url = template.render(&Input::new(&payload).unwrap()).map_err(|error| error.message)?;
        Ok(url.to_string())
    }

    #[test]
    fn values_fill_path_and_query_and_nothing_else() {
        for (value, path, query) in [
            ("a b", "a%20b", "a%20b"),
            ("a; touch pwned", "a%3B%20touch%20pwned", "a%3B%20touch%20pwned"),
            ("../../x", "..%2F..%2Fx", "..%2F..%2Fx"),
            ("@evil.example", "%40evil.example", "%40evil.example"),
            ("\r\nX: y", "%0D%0AX%3A%20y", "%0D%0AX%3A%20y"),
            ("{{ 7*7 }}", "%7B%7B%207%2A7%20%7D%7D", "%7B%7B%207%2A7%20%7D%7D"),
            ("x?y#z&w=1", "x%3Fy%23z%26w%3D1", "x%3Fy%23z%26w%3D1"),
        ] {
            assert_eq!(
                fill("https://h.example:8080/p/{{ input.v }}", value),
                Ok(format!("https://h.example:8080/p/{path}"))
            );
            assert_eq!(
                fill("https://h.example/p?q={{ input.v }}", value),
                Ok(format!("https://h.example/p?q={query}"))
            );
        }
        assert!(fill("https://h.example/a/{{ input.v }}/b", "..").unwrap_err().contains("'..'"));
        assert!(fill("https://h.example/a/{{ input.v }}", ".").is_err());
    }

    #[test]
    fn scheme_host_and_port_are_fixed_in_the_file() {
        for bad in [
            "ftp://h/x",
            "file:///etc/passwd",
            "{{ input.v }}",
            "https://{{ input.v }}/x",
            "https://h{{ input.v }}/x",
            "https://h:{{ input.v }}/x",
            "https://user:pw@h/x",
            "https:///x",
            "h/x",
            "https://h%2e/x",
        ] {
            assert!(UrlTemplate::parse(bad).is_err(), "{bad} was accepted");
        }
    }
}
