module github.com/phasecol/phasecol/cmd/stracetiming

go 1.25.0
