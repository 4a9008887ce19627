package main

import "testing"

func TestDevCommandLine(t *testing.T) { newWorld(t).golden(t, "dev.txt", nil) }
