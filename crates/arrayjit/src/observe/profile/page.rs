//! A page that shows profiles: a flame chart of a typical run, the live bytes during it, and all calls.

use super::profile::Profile;

/// The page, which `page.js` draws from the data.
const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page that needs no other file and no network.
pub(super) fn page(profiles: &[Profile]) -> String {
    let data = serde_json::to_string(profiles).unwrap_or_default();
    // A name or a statement may contain the end of the element that has the data.
    let data = data.replace('<', "\\u003c");
    // The data come last, because a name may look like a placeholder.
    TEMPLATE.replace("/*style*/", STYLE).replace("/*script*/", SCRIPT).replace("/*data*/", &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::profile::example;

    #[test]
    fn a_page_has_the_data_and_needs_no_other_file() {
        let profile = example::profile();
        let page = page(&[profile.clone(), profile.clone()]);
        let data = page.split_once("type=\"application/json\">").expect("the data").1;
        let data = data.split_once("</script>").expect("its end").0;
        let read: serde_json::Value = serde_json::from_str(data).expect("JSON");
        let one: serde_json::Value = serde_json::from_str(&profile.to_json()).expect("JSON");
        assert_eq!(read, serde_json::json!([one, one]));
        let address = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!address.contains("http") && !address.contains("src=") && !address.contains("href="));
    }

    #[test]
    fn names_cannot_end_the_data() {
        let mut profile = example::profile();
        profile.routine = "</script><script>alert(1)</script>/*script*/".into();
        let page = page(&[profile]);
        assert_eq!(page.matches("</script>").count(), 2);
        assert_eq!(page.matches("\"use strict\"").count(), 1);
    }
}
