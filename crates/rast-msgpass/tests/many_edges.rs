//! A graph of 100 processors and 400 edges: it compiles at the default recursion
//! limit, and it runs.
#![cfg(not(rast_loom))]

use std::time::Duration;

use rast_msgpass::{Cx, Ingress, Process, Receive, graph};

/// A processor, by number.
struct P<const N: usize>;

/// A message that goes so many processors onward.
struct Hop<const BY: usize>;

impl<const N: usize> Process<Big> for P<N> {}

impl<const N: usize, const BY: usize, F> Receive<Big, F, Hop<BY>> for P<N> {
    fn receive(&mut self, _: Hop<BY>, _: &mut Cx<'_, Big, Self>) {}
}

impl<const N: usize> Receive<Big, Ingress, u64> for P<N> {
    fn receive(&mut self, _: u64, _: &mut Cx<'_, Big, Self>) {}
}

graph! {
    graph Big {
        processors {
            p0: P<0>, p1: P<1>, p2: P<2>, p3: P<3>, p4: P<4>, p5: P<5>,
            p6: P<6>, p7: P<7>, p8: P<8>, p9: P<9>, p10: P<10>, p11: P<11>,
            p12: P<12>, p13: P<13>, p14: P<14>, p15: P<15>, p16: P<16>, p17: P<17>,
            p18: P<18>, p19: P<19>, p20: P<20>, p21: P<21>, p22: P<22>, p23: P<23>,
            p24: P<24>, p25: P<25>, p26: P<26>, p27: P<27>, p28: P<28>, p29: P<29>,
            p30: P<30>, p31: P<31>, p32: P<32>, p33: P<33>, p34: P<34>, p35: P<35>,
            p36: P<36>, p37: P<37>, p38: P<38>, p39: P<39>, p40: P<40>, p41: P<41>,
            p42: P<42>, p43: P<43>, p44: P<44>, p45: P<45>, p46: P<46>, p47: P<47>,
            p48: P<48>, p49: P<49>, p50: P<50>, p51: P<51>, p52: P<52>, p53: P<53>,
            p54: P<54>, p55: P<55>, p56: P<56>, p57: P<57>, p58: P<58>, p59: P<59>,
            p60: P<60>, p61: P<61>, p62: P<62>, p63: P<63>, p64: P<64>, p65: P<65>,
            p66: P<66>, p67: P<67>, p68: P<68>, p69: P<69>, p70: P<70>, p71: P<71>,
            p72: P<72>, p73: P<73>, p74: P<74>, p75: P<75>, p76: P<76>, p77: P<77>,
            p78: P<78>, p79: P<79>, p80: P<80>, p81: P<81>, p82: P<82>, p83: P<83>,
            p84: P<84>, p85: P<85>, p86: P<86>, p87: P<87>, p88: P<88>, p89: P<89>,
            p90: P<90>, p91: P<91>, p92: P<92>, p93: P<93>, p94: P<94>, p95: P<95>,
            p96: P<96>, p97: P<97>, p98: P<98>, p99: P<99>,
        }
        edges {
            p0 -> p1: Hop<1> [cap = 4]; p0 -> p2: Hop<2> [cap = 4]; p0 -> p3: Hop<3> [cap = 4];
            p0 -> p4: Hop<4> [cap = 4]; p1 -> p2: Hop<1> [cap = 4]; p1 -> p3: Hop<2> [cap = 4];
            p1 -> p4: Hop<3> [cap = 4]; p1 -> p5: Hop<4> [cap = 4]; p2 -> p3: Hop<1> [cap = 4];
            p2 -> p4: Hop<2> [cap = 4]; p2 -> p5: Hop<3> [cap = 4]; p2 -> p6: Hop<4> [cap = 4];
            p3 -> p4: Hop<1> [cap = 4]; p3 -> p5: Hop<2> [cap = 4]; p3 -> p6: Hop<3> [cap = 4];
            p3 -> p7: Hop<4> [cap = 4]; p4 -> p5: Hop<1> [cap = 4]; p4 -> p6: Hop<2> [cap = 4];
            p4 -> p7: Hop<3> [cap = 4]; p4 -> p8: Hop<4> [cap = 4]; p5 -> p6: Hop<1> [cap = 4];
            p5 -> p7: Hop<2> [cap = 4]; p5 -> p8: Hop<3> [cap = 4]; p5 -> p9: Hop<4> [cap = 4];
            p6 -> p7: Hop<1> [cap = 4]; p6 -> p8: Hop<2> [cap = 4]; p6 -> p9: Hop<3> [cap = 4];
            p6 -> p10: Hop<4> [cap = 4]; p7 -> p8: Hop<1> [cap = 4]; p7 -> p9: Hop<2> [cap = 4];
            p7 -> p10: Hop<3> [cap = 4]; p7 -> p11: Hop<4> [cap = 4]; p8 -> p9: Hop<1> [cap = 4];
            p8 -> p10: Hop<2> [cap = 4]; p8 -> p11: Hop<3> [cap = 4]; p8 -> p12: Hop<4> [cap = 4];
            p9 -> p10: Hop<1> [cap = 4]; p9 -> p11: Hop<2> [cap = 4]; p9 -> p12: Hop<3> [cap = 4];
            p9 -> p13: Hop<4> [cap = 4]; p10 -> p11: Hop<1> [cap = 4]; p10 -> p12: Hop<2> [cap = 4];
            p10 -> p13: Hop<3> [cap = 4]; p10 -> p14: Hop<4> [cap = 4]; p11 -> p12: Hop<1> [cap = 4];
            p11 -> p13: Hop<2> [cap = 4]; p11 -> p14: Hop<3> [cap = 4]; p11 -> p15: Hop<4> [cap = 4];
            p12 -> p13: Hop<1> [cap = 4]; p12 -> p14: Hop<2> [cap = 4]; p12 -> p15: Hop<3> [cap = 4];
            p12 -> p16: Hop<4> [cap = 4]; p13 -> p14: Hop<1> [cap = 4]; p13 -> p15: Hop<2> [cap = 4];
            p13 -> p16: Hop<3> [cap = 4]; p13 -> p17: Hop<4> [cap = 4]; p14 -> p15: Hop<1> [cap = 4];
            p14 -> p16: Hop<2> [cap = 4]; p14 -> p17: Hop<3> [cap = 4]; p14 -> p18: Hop<4> [cap = 4];
            p15 -> p16: Hop<1> [cap = 4]; p15 -> p17: Hop<2> [cap = 4]; p15 -> p18: Hop<3> [cap = 4];
            p15 -> p19: Hop<4> [cap = 4]; p16 -> p17: Hop<1> [cap = 4]; p16 -> p18: Hop<2> [cap = 4];
            p16 -> p19: Hop<3> [cap = 4]; p16 -> p20: Hop<4> [cap = 4]; p17 -> p18: Hop<1> [cap = 4];
            p17 -> p19: Hop<2> [cap = 4]; p17 -> p20: Hop<3> [cap = 4]; p17 -> p21: Hop<4> [cap = 4];
            p18 -> p19: Hop<1> [cap = 4]; p18 -> p20: Hop<2> [cap = 4]; p18 -> p21: Hop<3> [cap = 4];
            p18 -> p22: Hop<4> [cap = 4]; p19 -> p20: Hop<1> [cap = 4]; p19 -> p21: Hop<2> [cap = 4];
            p19 -> p22: Hop<3> [cap = 4]; p19 -> p23: Hop<4> [cap = 4]; p20 -> p21: Hop<1> [cap = 4];
            p20 -> p22: Hop<2> [cap = 4]; p20 -> p23: Hop<3> [cap = 4]; p20 -> p24: Hop<4> [cap = 4];
            p21 -> p22: Hop<1> [cap = 4]; p21 -> p23: Hop<2> [cap = 4]; p21 -> p24: Hop<3> [cap = 4];
            p21 -> p25: Hop<4> [cap = 4]; p22 -> p23: Hop<1> [cap = 4]; p22 -> p24: Hop<2> [cap = 4];
            p22 -> p25: Hop<3> [cap = 4]; p22 -> p26: Hop<4> [cap = 4]; p23 -> p24: Hop<1> [cap = 4];
            p23 -> p25: Hop<2> [cap = 4]; p23 -> p26: Hop<3> [cap = 4]; p23 -> p27: Hop<4> [cap = 4];
            p24 -> p25: Hop<1> [cap = 4]; p24 -> p26: Hop<2> [cap = 4]; p24 -> p27: Hop<3> [cap = 4];
            p24 -> p28: Hop<4> [cap = 4]; p25 -> p26: Hop<1> [cap = 4]; p25 -> p27: Hop<2> [cap = 4];
            p25 -> p28: Hop<3> [cap = 4]; p25 -> p29: Hop<4> [cap = 4]; p26 -> p27: Hop<1> [cap = 4];
            p26 -> p28: Hop<2> [cap = 4]; p26 -> p29: Hop<3> [cap = 4]; p26 -> p30: Hop<4> [cap = 4];
            p27 -> p28: Hop<1> [cap = 4]; p27 -> p29: Hop<2> [cap = 4]; p27 -> p30: Hop<3> [cap = 4];
            p27 -> p31: Hop<4> [cap = 4]; p28 -> p29: Hop<1> [cap = 4]; p28 -> p30: Hop<2> [cap = 4];
            p28 -> p31: Hop<3> [cap = 4]; p28 -> p32: Hop<4> [cap = 4]; p29 -> p30: Hop<1> [cap = 4];
            p29 -> p31: Hop<2> [cap = 4]; p29 -> p32: Hop<3> [cap = 4]; p29 -> p33: Hop<4> [cap = 4];
            p30 -> p31: Hop<1> [cap = 4]; p30 -> p32: Hop<2> [cap = 4]; p30 -> p33: Hop<3> [cap = 4];
            p30 -> p34: Hop<4> [cap = 4]; p31 -> p32: Hop<1> [cap = 4]; p31 -> p33: Hop<2> [cap = 4];
            p31 -> p34: Hop<3> [cap = 4]; p31 -> p35: Hop<4> [cap = 4]; p32 -> p33: Hop<1> [cap = 4];
            p32 -> p34: Hop<2> [cap = 4]; p32 -> p35: Hop<3> [cap = 4]; p32 -> p36: Hop<4> [cap = 4];
            p33 -> p34: Hop<1> [cap = 4]; p33 -> p35: Hop<2> [cap = 4]; p33 -> p36: Hop<3> [cap = 4];
            p33 -> p37: Hop<4> [cap = 4]; p34 -> p35: Hop<1> [cap = 4]; p34 -> p36: Hop<2> [cap = 4];
            p34 -> p37: Hop<3> [cap = 4]; p34 -> p38: Hop<4> [cap = 4]; p35 -> p36: Hop<1> [cap = 4];
            p35 -> p37: Hop<2> [cap = 4]; p35 -> p38: Hop<3> [cap = 4]; p35 -> p39: Hop<4> [cap = 4];
            p36 -> p37: Hop<1> [cap = 4]; p36 -> p38: Hop<2> [cap = 4]; p36 -> p39: Hop<3> [cap = 4];
            p36 -> p40: Hop<4> [cap = 4]; p37 -> p38: Hop<1> [cap = 4]; p37 -> p39: Hop<2> [cap = 4];
            p37 -> p40: Hop<3> [cap = 4]; p37 -> p41: Hop<4> [cap = 4]; p38 -> p39: Hop<1> [cap = 4];
            p38 -> p40: Hop<2> [cap = 4]; p38 -> p41: Hop<3> [cap = 4]; p38 -> p42: Hop<4> [cap = 4];
            p39 -> p40: Hop<1> [cap = 4]; p39 -> p41: Hop<2> [cap = 4]; p39 -> p42: Hop<3> [cap = 4];
            p39 -> p43: Hop<4> [cap = 4]; p40 -> p41: Hop<1> [cap = 4]; p40 -> p42: Hop<2> [cap = 4];
            p40 -> p43: Hop<3> [cap = 4]; p40 -> p44: Hop<4> [cap = 4]; p41 -> p42: Hop<1> [cap = 4];
            p41 -> p43: Hop<2> [cap = 4]; p41 -> p44: Hop<3> [cap = 4]; p41 -> p45: Hop<4> [cap = 4];
            p42 -> p43: Hop<1> [cap = 4]; p42 -> p44: Hop<2> [cap = 4]; p42 -> p45: Hop<3> [cap = 4];
            p42 -> p46: Hop<4> [cap = 4]; p43 -> p44: Hop<1> [cap = 4]; p43 -> p45: Hop<2> [cap = 4];
            p43 -> p46: Hop<3> [cap = 4]; p43 -> p47: Hop<4> [cap = 4]; p44 -> p45: Hop<1> [cap = 4];
            p44 -> p46: Hop<2> [cap = 4]; p44 -> p47: Hop<3> [cap = 4]; p44 -> p48: Hop<4> [cap = 4];
            p45 -> p46: Hop<1> [cap = 4]; p45 -> p47: Hop<2> [cap = 4]; p45 -> p48: Hop<3> [cap = 4];
            p45 -> p49: Hop<4> [cap = 4]; p46 -> p47: Hop<1> [cap = 4]; p46 -> p48: Hop<2> [cap = 4];
            p46 -> p49: Hop<3> [cap = 4]; p46 -> p50: Hop<4> [cap = 4]; p47 -> p48: Hop<1> [cap = 4];
            p47 -> p49: Hop<2> [cap = 4]; p47 -> p50: Hop<3> [cap = 4]; p47 -> p51: Hop<4> [cap = 4];
            p48 -> p49: Hop<1> [cap = 4]; p48 -> p50: Hop<2> [cap = 4]; p48 -> p51: Hop<3> [cap = 4];
            p48 -> p52: Hop<4> [cap = 4]; p49 -> p50: Hop<1> [cap = 4]; p49 -> p51: Hop<2> [cap = 4];
            p49 -> p52: Hop<3> [cap = 4]; p49 -> p53: Hop<4> [cap = 4]; p50 -> p51: Hop<1> [cap = 4];
            p50 -> p52: Hop<2> [cap = 4]; p50 -> p53: Hop<3> [cap = 4]; p50 -> p54: Hop<4> [cap = 4];
            p51 -> p52: Hop<1> [cap = 4]; p51 -> p53: Hop<2> [cap = 4]; p51 -> p54: Hop<3> [cap = 4];
            p51 -> p55: Hop<4> [cap = 4]; p52 -> p53: Hop<1> [cap = 4]; p52 -> p54: Hop<2> [cap = 4];
            p52 -> p55: Hop<3> [cap = 4]; p52 -> p56: Hop<4> [cap = 4]; p53 -> p54: Hop<1> [cap = 4];
            p53 -> p55: Hop<2> [cap = 4]; p53 -> p56: Hop<3> [cap = 4]; p53 -> p57: Hop<4> [cap = 4];
            p54 -> p55: Hop<1> [cap = 4]; p54 -> p56: Hop<2> [cap = 4]; p54 -> p57: Hop<3> [cap = 4];
            p54 -> p58: Hop<4> [cap = 4]; p55 -> p56: Hop<1> [cap = 4]; p55 -> p57: Hop<2> [cap = 4];
            p55 -> p58: Hop<3> [cap = 4]; p55 -> p59: Hop<4> [cap = 4]; p56 -> p57: Hop<1> [cap = 4];
            p56 -> p58: Hop<2> [cap = 4]; p56 -> p59: Hop<3> [cap = 4]; p56 -> p60: Hop<4> [cap = 4];
            p57 -> p58: Hop<1> [cap = 4]; p57 -> p59: Hop<2> [cap = 4]; p57 -> p60: Hop<3> [cap = 4];
            p57 -> p61: Hop<4> [cap = 4]; p58 -> p59: Hop<1> [cap = 4]; p58 -> p60: Hop<2> [cap = 4];
            p58 -> p61: Hop<3> [cap = 4]; p58 -> p62: Hop<4> [cap = 4]; p59 -> p60: Hop<1> [cap = 4];
            p59 -> p61: Hop<2> [cap = 4]; p59 -> p62: Hop<3> [cap = 4]; p59 -> p63: Hop<4> [cap = 4];
            p60 -> p61: Hop<1> [cap = 4]; p60 -> p62: Hop<2> [cap = 4]; p60 -> p63: Hop<3> [cap = 4];
            p60 -> p64: Hop<4> [cap = 4]; p61 -> p62: Hop<1> [cap = 4]; p61 -> p63: Hop<2> [cap = 4];
            p61 -> p64: Hop<3> [cap = 4]; p61 -> p65: Hop<4> [cap = 4]; p62 -> p63: Hop<1> [cap = 4];
            p62 -> p64: Hop<2> [cap = 4]; p62 -> p65: Hop<3> [cap = 4]; p62 -> p66: Hop<4> [cap = 4];
            p63 -> p64: Hop<1> [cap = 4]; p63 -> p65: Hop<2> [cap = 4]; p63 -> p66: Hop<3> [cap = 4];
            p63 -> p67: Hop<4> [cap = 4]; p64 -> p65: Hop<1> [cap = 4]; p64 -> p66: Hop<2> [cap = 4];
            p64 -> p67: Hop<3> [cap = 4]; p64 -> p68: Hop<4> [cap = 4]; p65 -> p66: Hop<1> [cap = 4];
            p65 -> p67: Hop<2> [cap = 4]; p65 -> p68: Hop<3> [cap = 4]; p65 -> p69: Hop<4> [cap = 4];
            p66 -> p67: Hop<1> [cap = 4]; p66 -> p68: Hop<2> [cap = 4]; p66 -> p69: Hop<3> [cap = 4];
            p66 -> p70: Hop<4> [cap = 4]; p67 -> p68: Hop<1> [cap = 4]; p67 -> p69: Hop<2> [cap = 4];
            p67 -> p70: Hop<3> [cap = 4]; p67 -> p71: Hop<4> [cap = 4]; p68 -> p69: Hop<1> [cap = 4];
            p68 -> p70: Hop<2> [cap = 4]; p68 -> p71: Hop<3> [cap = 4]; p68 -> p72: Hop<4> [cap = 4];
            p69 -> p70: Hop<1> [cap = 4]; p69 -> p71: Hop<2> [cap = 4]; p69 -> p72: Hop<3> [cap = 4];
            p69 -> p73: Hop<4> [cap = 4]; p70 -> p71: Hop<1> [cap = 4]; p70 -> p72: Hop<2> [cap = 4];
            p70 -> p73: Hop<3> [cap = 4]; p70 -> p74: Hop<4> [cap = 4]; p71 -> p72: Hop<1> [cap = 4];
            p71 -> p73: Hop<2> [cap = 4]; p71 -> p74: Hop<3> [cap = 4]; p71 -> p75: Hop<4> [cap = 4];
            p72 -> p73: Hop<1> [cap = 4]; p72 -> p74: Hop<2> [cap = 4]; p72 -> p75: Hop<3> [cap = 4];
            p72 -> p76: Hop<4> [cap = 4]; p73 -> p74: Hop<1> [cap = 4]; p73 -> p75: Hop<2> [cap = 4];
            p73 -> p76: Hop<3> [cap = 4]; p73 -> p77: Hop<4> [cap = 4]; p74 -> p75: Hop<1> [cap = 4];
            p74 -> p76: Hop<2> [cap = 4]; p74 -> p77: Hop<3> [cap = 4]; p74 -> p78: Hop<4> [cap = 4];
            p75 -> p76: Hop<1> [cap = 4]; p75 -> p77: Hop<2> [cap = 4]; p75 -> p78: Hop<3> [cap = 4];
            p75 -> p79: Hop<4> [cap = 4]; p76 -> p77: Hop<1> [cap = 4]; p76 -> p78: Hop<2> [cap = 4];
            p76 -> p79: Hop<3> [cap = 4]; p76 -> p80: Hop<4> [cap = 4]; p77 -> p78: Hop<1> [cap = 4];
            p77 -> p79: Hop<2> [cap = 4]; p77 -> p80: Hop<3> [cap = 4]; p77 -> p81: Hop<4> [cap = 4];
            p78 -> p79: Hop<1> [cap = 4]; p78 -> p80: Hop<2> [cap = 4]; p78 -> p81: Hop<3> [cap = 4];
            p78 -> p82: Hop<4> [cap = 4]; p79 -> p80: Hop<1> [cap = 4]; p79 -> p81: Hop<2> [cap = 4];
            p79 -> p82: Hop<3> [cap = 4]; p79 -> p83: Hop<4> [cap = 4]; p80 -> p81: Hop<1> [cap = 4];
            p80 -> p82: Hop<2> [cap = 4]; p80 -> p83: Hop<3> [cap = 4]; p80 -> p84: Hop<4> [cap = 4];
            p81 -> p82: Hop<1> [cap = 4]; p81 -> p83: Hop<2> [cap = 4]; p81 -> p84: Hop<3> [cap = 4];
            p81 -> p85: Hop<4> [cap = 4]; p82 -> p83: Hop<1> [cap = 4]; p82 -> p84: Hop<2> [cap = 4];
            p82 -> p85: Hop<3> [cap = 4]; p82 -> p86: Hop<4> [cap = 4]; p83 -> p84: Hop<1> [cap = 4];
            p83 -> p85: Hop<2> [cap = 4]; p83 -> p86: Hop<3> [cap = 4]; p83 -> p87: Hop<4> [cap = 4];
            p84 -> p85: Hop<1> [cap = 4]; p84 -> p86: Hop<2> [cap = 4]; p84 -> p87: Hop<3> [cap = 4];
            p84 -> p88: Hop<4> [cap = 4]; p85 -> p86: Hop<1> [cap = 4]; p85 -> p87: Hop<2> [cap = 4];
            p85 -> p88: Hop<3> [cap = 4]; p85 -> p89: Hop<4> [cap = 4]; p86 -> p87: Hop<1> [cap = 4];
            p86 -> p88: Hop<2> [cap = 4]; p86 -> p89: Hop<3> [cap = 4]; p86 -> p90: Hop<4> [cap = 4];
            p87 -> p88: Hop<1> [cap = 4]; p87 -> p89: Hop<2> [cap = 4]; p87 -> p90: Hop<3> [cap = 4];
            p87 -> p91: Hop<4> [cap = 4]; p88 -> p89: Hop<1> [cap = 4]; p88 -> p90: Hop<2> [cap = 4];
            p88 -> p91: Hop<3> [cap = 4]; p88 -> p92: Hop<4> [cap = 4]; p89 -> p90: Hop<1> [cap = 4];
            p89 -> p91: Hop<2> [cap = 4]; p89 -> p92: Hop<3> [cap = 4]; p89 -> p93: Hop<4> [cap = 4];
            p90 -> p91: Hop<1> [cap = 4]; p90 -> p92: Hop<2> [cap = 4]; p90 -> p93: Hop<3> [cap = 4];
            p90 -> p94: Hop<4> [cap = 4]; p91 -> p92: Hop<1> [cap = 4]; p91 -> p93: Hop<2> [cap = 4];
            p91 -> p94: Hop<3> [cap = 4]; p91 -> p95: Hop<4> [cap = 4]; p92 -> p93: Hop<1> [cap = 4];
            p92 -> p94: Hop<2> [cap = 4]; p92 -> p95: Hop<3> [cap = 4]; p92 -> p96: Hop<4> [cap = 4];
            p93 -> p94: Hop<1> [cap = 4]; p93 -> p95: Hop<2> [cap = 4]; p93 -> p96: Hop<3> [cap = 4];
            p93 -> p97: Hop<4> [cap = 4]; p94 -> p95: Hop<1> [cap = 4]; p94 -> p96: Hop<2> [cap = 4];
            p94 -> p97: Hop<3> [cap = 4]; p94 -> p98: Hop<4> [cap = 4]; p95 -> p96: Hop<1> [cap = 4];
            p95 -> p97: Hop<2> [cap = 4]; p95 -> p98: Hop<3> [cap = 4]; p95 -> p99: Hop<4> [cap = 4];
            p96 -> p97: Hop<1> [cap = 4]; p96 -> p98: Hop<2> [cap = 4]; p96 -> p99: Hop<3> [cap = 4];
            p97 -> p98: Hop<1> [cap = 4]; p97 -> p99: Hop<2> [cap = 4]; p98 -> p99: Hop<1> [cap = 4];
            ingress -> p0: u64; ingress -> p1: u64 [cap = 2]; ingress -> p2: u64 [cap = 2];
            ingress -> p3: u64 [cap = 2]; ingress -> p4: u64 [cap = 2]; ingress -> p5: u64 [cap = 2];
            ingress -> p6: u64 [cap = 2]; ingress -> p7: u64 [cap = 2]; ingress -> p8: u64 [cap = 2];
            p99 -> egress: u64;
        }
    }
}

#[test]
fn four_hundred_edges_compile_and_run() {
    assert_eq!(Big::PROCESSORS.len(), 100);
    assert_eq!(Big::EDGES.len(), 400);
    let app = Big::builder(
        P::<0>, P::<1>, P::<2>, P::<3>, P::<4>, P::<5>, P::<6>, P::<7>, P::<8>, P::<9>, P::<10>,
        P::<11>, P::<12>, P::<13>, P::<14>, P::<15>, P::<16>, P::<17>, P::<18>, P::<19>, P::<20>,
        P::<21>, P::<22>, P::<23>, P::<24>, P::<25>, P::<26>, P::<27>, P::<28>, P::<29>, P::<30>,
        P::<31>, P::<32>, P::<33>, P::<34>, P::<35>, P::<36>, P::<37>, P::<38>, P::<39>, P::<40>,
        P::<41>, P::<42>, P::<43>, P::<44>, P::<45>, P::<46>, P::<47>, P::<48>, P::<49>, P::<50>,
        P::<51>, P::<52>, P::<53>, P::<54>, P::<55>, P::<56>, P::<57>, P::<58>, P::<59>, P::<60>,
        P::<61>, P::<62>, P::<63>, P::<64>, P::<65>, P::<66>, P::<67>, P::<68>, P::<69>, P::<70>,
        P::<71>, P::<72>, P::<73>, P::<74>, P::<75>, P::<76>, P::<77>, P::<78>, P::<79>, P::<80>,
        P::<81>, P::<82>, P::<83>, P::<84>, P::<85>, P::<86>, P::<87>, P::<88>, P::<89>, P::<90>,
        P::<91>, P::<92>, P::<93>, P::<94>, P::<95>, P::<96>, P::<97>, P::<98>, P::<99>,
    )
    .workers(2)
    .start()
    .unwrap();
    app.ingress::<P<0>, u64>().send(1).unwrap();
    app.ingress::<P<1>, u64>().send(1).unwrap();
    let mut out = app.egress::<P<99>, u64>(0);
    let report = app.drain(Duration::from_secs(30)).unwrap();
    assert_eq!(report.received_total(), 2);
    assert!(out.recv().is_err());
}
