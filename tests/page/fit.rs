// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a phone to a wide screen, in light and dark.

use crate::browser::{Browser, can_browse};
use crate::look::{PLOTS, look, place, view};
use crate::runs::Run;

#[test]
fn fits_from_a_phone_to_a_wide_screen_in_light_and_dark() {
    if !can_browse("fits_from_a_phone_to_a_wide_screen_in_light_and_dark") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::watching(390);
    for width in [390, 1280, 2560] {
        browser.resize(width);
        browser.open(&run.page());
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            let lit = look(&mut browser);
            assert!(lit.iter().all(|(_, lit, _)| *lit > 100), "{width} px, {scheme}: {lit:?}");
        }
        assert_fits(&mut browser, width);
    }
    browser.prefer("light");
    browser.resize(390);
    browser.open(&run.page());
    let hidden = browser.eval(
        "(() => { document.querySelectorAll('details').forEach((details) => (details.open = true)); \
         return [...document.querySelectorAll('.cards, .cards td, .bar label, .remarks li, .leading dd')].filter((part) => { \
         const { left, right } = part.getBoundingClientRect(); return left < 0 || right > 390 || part.scrollWidth > part.clientWidth + 1; }) \
         .filter((part) => getComputedStyle(part).display !== 'inline').map((part) => part.outerHTML.slice(0, 120)); })()",
    );
    assert_eq!(hidden.as_array().map(Vec::len), Some(0), "390 px: cut at the right: {hidden}");
    let unnamed = browser.eval("[...document.querySelectorAll('.cards td')].filter((td) => !td.dataset.of).length");
    assert_eq!(unnamed, 0, "figures in cards without their column's name");
    let ground = "getComputedStyle(document.body).backgroundColor";
    let (light, light_plots) = (browser.eval(ground), look(&mut browser));
    browser.prefer("dark");
    let (dark, dark_plots) = (browser.eval(ground), look(&mut browser));
    assert_ne!(light, dark);
    assert!(light_plots.iter().zip(&dark_plots).all(|(a, b)| a.2 != b.2), "every plot follows the theme");
    browser.eval("document.getElementById('theme').click()");
    assert_eq!(browser.eval(ground), light, "the button overrides what the system prefers");
    assert_eq!(look(&mut browser), light_plots);
    browser.close();
}

/// Nothing is wider than the window, and every plot is as wide as its place.
fn assert_fits(browser: &mut Browser, width: u32) {
    let wide = browser.eval(
        "(async () => { await frame(); const { scrollWidth } = document.documentElement; \
         scrollTo(9999, scrollY); const scrolled = scrollX; return [scrollWidth, document.body.scrollWidth, scrolled]; })()",
    );
    let wide: Vec<i64> = wide.as_array().into_iter().flatten().filter_map(|px| px.as_i64()).collect();
    let whole = i64::from(width);
    assert_eq!(wide, [whole, whole, 0], "{width} px: width of document and body, and how far it scrolls to the side");
    let amiss = browser.eval(&format!(
        "{PLOTS}.filter((figure) => {{ const [host, canvas] = ['.plot', 'canvas'].map((of) => figure.querySelector(of)); \
         const {{ left, right, width }} = canvas.getBoundingClientRect(); const {{ left: from, width: room }} = within(figure); \
         return left < 0 || right > {width} || Math.abs(width - host.clientWidth) > 1 || from + room > canvas.width; }}) \
         .map((figure) => figure.outerHTML.slice(0, 90))"
    ));
    assert_eq!(amiss.as_array().map(Vec::len), Some(0), "{width} px: not as wide as their place: {amiss}");
}

#[test]
fn plots_refit_when_the_window_changes() {
    if !can_browse("plots_refit_when_the_window_changes") {
        return;
    }
    let run = Run::usual();
    let mut browser = Browser::watching(1280);
    browser.open(&run.page());
    let before = look(&mut browser);
    // One is zoomed, and stays so.
    place(&mut browser, 2);
    browser.eval(&format!("{PLOTS}[2].querySelector('.plot').focus()"));
    browser.press("+");
    let zoomed = view(&mut browser, 2);
    let mut seen = vec![before.clone()];
    for width in [390, 2560, 640, 1024] {
        browser.resize(width);
        assert_fits(&mut browser, width);
        let plots = look(&mut browser);
        assert!(plots.iter().all(|(_, lit, _)| *lit > 100), "{width} px: {plots:?}");
        let anew = |other: &Vec<(String, u64, u64)>| other.iter().zip(&plots).all(|(a, b)| a.2 != b.2);
        assert!(seen.iter().all(anew), "{width} px: every plot is drawn anew");
        seen.push(plots);
        assert_eq!(view(&mut browser, 2), zoomed, "{width} px: the zoom stays");
    }
    browser.resize(1280);
    browser.press("0");
    assert_eq!(look(&mut browser), before, "back at its width, it is the same picture");
    browser.close();
}
