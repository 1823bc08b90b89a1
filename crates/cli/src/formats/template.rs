//! Key templates, which build keys from fields. Examples are `name` and `{country}/{city}`.

/// A template that builds a key from fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTemplate {
    text: String,
    parts: Vec<TemplatePart>,
}

/// A part of a key template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    Text(Vec<u8>),
    /// The content of the field with this name.
    Field(String),
}

impl KeyTemplate {
    /// Parses a template, which is the name of a field or a text with field names in braces. In the
    /// text, `{{` and `}}` denote literal braces.
    ///
    /// # Errors
    /// Describes why the template is invalid.
    pub fn parse(text: &str) -> Result<KeyTemplate, String> {
        if text.is_empty() {
            return Err(
                "the key is empty: name a column, or write a template such as {country}/{city}".to_owned(),
            );
        }
        if !text.contains(['{', '}']) {
            return Ok(KeyTemplate {
                text: text.to_owned(),
                parts: vec![TemplatePart::Field(text.to_owned())],
            });
        }
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(doubled) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = doubled;
                continue;
            }
            let name = if brace == "{" { rest.split_once('}') } else { None };
            let Some((name, behind)) = name else {
                return Err(format!(
                    "{text:?} has an unpaired brace: write {{name}} for a field, {{{{ for a brace"
                ));
            };
            if !plain.is_empty() {
                parts.push(TemplatePart::Text(std::mem::take(&mut plain).into_bytes()));
            }
            parts.push(TemplatePart::Field(name.to_owned()));
            rest = behind;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(plain.into_bytes()));
        }
        if !parts.iter().any(|part| matches!(part, TemplatePart::Field(_))) {
            return Err(format!(
                "{text:?} names no field, so all rows would have the same key: write {{name}} for a field"
            ));
        }
        Ok(KeyTemplate {
            text: text.to_owned(),
            parts,
        })
    }

    /// Returns the template as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the parts of the template in order.
    #[must_use]
    pub fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_is_a_field_and_braces_are_fields_among_text() {
        let field = |name: &str| TemplatePart::Field(name.to_owned());
        let text = |text: &str| TemplatePart::Text(text.as_bytes().to_vec());
        let parts = |template: &str| KeyTemplate::parse(template).unwrap().parts;
        assert_eq!(parts("city"), [field("city")]);
        assert_eq!(
            parts("{country}/{city}"),
            [field("country"), text("/"), field("city")]
        );
        assert_eq!(parts("{{{a}}}x"), [text("{"), field("a"), text("}x")]);
        for wrong in ["", "{", "a}b", "{a", "{{x}}"] {
            assert!(KeyTemplate::parse(wrong).is_err(), "{wrong}");
        }
    }
}
