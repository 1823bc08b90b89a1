//! Tests that the web page's colours have sufficient contrast by WCAG 2.1, level AA.

use std::collections::HashMap;

const STYLE: &str = include_str!("assets/style.css");

/// Contrast ratios that WCAG requires for text and (`GRAPHICS`) for lines and areas.
const TEXT: f64 = 4.5;
const GRAPHICS: f64 = 3.0;

type ColourTheme = HashMap<&'static str, [u8; 3]>;

/// Returns the colours of the themes in style sheet order: the light theme, the dark theme
/// preferred by the system, and the dark theme chosen by the user.
fn themes() -> Vec<ColourTheme> {
    let mut themes: Vec<ColourTheme> = Vec::new();
    for line in STYLE.lines() {
        let line = line.trim();
        if line.starts_with("--ground:") {
            themes.push(ColourTheme::new());
        }
        let Some(theme) = themes.last_mut() else {
            continue;
        };
        for part in line.split(';') {
            let Some((name, value)) = part.split_once(": #") else {
                continue;
            };
            let Some(name) = name.trim().strip_prefix("--") else {
                continue;
            };
            let number = u32::from_str_radix(value.trim(), 16).expect("a colour of six digits");
            theme.insert(name, [16, 8, 0].map(|shift| (number >> shift) as u8));
        }
    }
    themes
}

fn luminance(colour: [u8; 3]) -> f64 {
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.039_28 {
            part / 12.92
        } else {
            ((part + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * linear(colour[0]) + 0.7152 * linear(colour[1]) + 0.0722 * linear(colour[2])
}

fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn texts_lines_and_areas_stand_out_from_whatever_they_lie_on() {
    let themes = themes();
    assert_eq!(themes.len(), 3, "light, dark by the system, dark by choice");
    for theme in &themes {
        let check = |over: &str, under: &str, least: f64| {
            let ratio = contrast(theme[over], theme[under]);
            assert!(
                ratio >= least,
                "{over} on {under}: {ratio:.2}, {least} are needed"
            );
        };
        for over in ["ink", "faint", "accent", "warn", "bad"] {
            for under in ["ground", "card", "soft", "accent-soft"] {
                check(over, under, TEXT);
            }
        }
        check("warn", "warn-soft", TEXT);
        check("ink", "warn-soft", TEXT);
        check("accent-ink", "accent", TEXT);
        let graphics = [
            "c1", "c2", "c3", "c4", "c5", "c6", "own", "pending", "done", "good", "edge",
        ];
        for over in graphics {
            check(over, "card", GRAPHICS);
        }
    }
    assert_eq!(themes[1], themes[2], "dark is dark");
}
