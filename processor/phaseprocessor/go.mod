module github.com/phasecol/phasecol/processor/phaseprocessor

go 1.25.0
