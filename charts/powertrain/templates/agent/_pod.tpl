{{/* The agent's DaemonSets: one for each family of boards, or one for simulated boards. They differ in what they mount. */}}

{{- define "powertrain.agent.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "powertrain.labels" .root | nindent 2 }}
  app.kubernetes.io/component: agent
  powertrain.io/family: {{ .family }}
{{- end -}}

{{/* Takes root, name, family, nodeSelector, affinity, args, hostRoot, volumes, mounts, privileged. */}}
{{- define "powertrain.agent.spec" -}}
{{- $values := .root.Values.agent -}}
{{- if and $values.nn $values.image.digest -}}
{{- fail "agent.nn chooses a tag, and agent.image.digest wins over every tag: name the digest of the image agent-nn and leave agent.nn off" -}}
{{- end -}}
revisionHistoryLimit: 3
selector:
  matchLabels:
    {{- include "powertrain.selector" .root | nindent 4 }}
    app.kubernetes.io/component: agent
    powertrain.io/family: {{ .family }}
updateStrategy:
  # A job runs on while its agent is replaced: the board keeps the job's mode, and the new agent goes on from there.
  type: RollingUpdate
  rollingUpdate:
    maxUnavailable: {{ $values.maxUnavailable }}
template:
  metadata:
    labels:
      {{- include "powertrain.labels" .root | nindent 6 }}
      app.kubernetes.io/component: agent
      powertrain.io/family: {{ .family }}
      {{- with $values.podLabels }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with $values.podAnnotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    {{- with include "powertrain.pullSecrets" .root | trim }}
    {{- . | nindent 4 }}
    {{- end }}
    serviceAccountName: {{ include "powertrain.agentAccount" .root }}
    automountServiceAccountToken: true
    terminationGracePeriodSeconds: 30
    {{- with default (include "powertrain.priorityClass" .root) $values.priorityClassName }}
    priorityClassName: {{ . }}
    {{- end }}
    securityContext:
      runAsUser: 0
      runAsGroup: 0
      seccompProfile: {type: RuntimeDefault}
    containers:
      - name: agent
        image: {{ include "powertrain.image" (dict "root" .root "image" $values.image "suffix" (ternary "-nn" "" $values.nn)) | quote }}
        imagePullPolicy: {{ include "powertrain.pullPolicy" .root }}
        args:
          - --state-dir={{ $values.stateDir }}
          - --metrics-port={{ $values.metricsPort }}
          {{- if eq $values.mode "Observe" }}
          - --observe
          {{- end }}
          {{- toYaml .args | nindent 10 }}
          {{- if $values.references.configMaps }}
          - --references=/etc/powertrain/references
          {{- end }}
          {{- if $values.references.hostPath }}
          - --references=/etc/powertrain/host-references
          {{- end }}
          {{- with $values.extraArgs }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
        env:
          - name: NODE_NAME
            valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
          - name: POD_NAME
            valueFrom: {fieldRef: {fieldPath: metadata.name}}
          - name: POD_NAMESPACE
            valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
          # `kubectl exec … -- powertrain-agent doctor` needs no options by these.
          - {name: POWERTRAIN_HOST_ROOT, value: {{ .hostRoot }}}
          - {name: POWERTRAIN_STATE_DIR, value: {{ $values.stateDir }}}
          # Fits share the board with a training.
          - {name: OMP_NUM_THREADS, value: "1"}
        ports:
          - {name: metrics, containerPort: {{ $values.metricsPort }}, protocol: TCP}
        {{- include "powertrain.probes" .root | nindent 8 }}
        resources:
          {{- toYaml $values.resources | nindent 10 }}
        securityContext:
          {{- if .privileged }}
          privileged: true
          readOnlyRootFilesystem: true
          {{- else }}
          {{- include "powertrain.confined" .root | nindent 10 }}
          {{- end }}
        volumeMounts:
          - {name: state, mountPath: {{ $values.stateDir }}}
          {{- toYaml .mounts | nindent 10 }}
          {{- range $values.references.configMaps }}
          - {name: reference-{{ . }}, mountPath: /etc/powertrain/references/{{ . }}, readOnly: true}
          {{- end }}
          {{- if $values.references.hostPath }}
          - {name: host-references, mountPath: /etc/powertrain/host-references, readOnly: true}
          {{- end }}
    volumes:
      - {name: state, hostPath: {path: {{ $values.stateDir }}, type: DirectoryOrCreate}}
      {{- toYaml .volumes | nindent 6 }}
      {{- range $values.references.configMaps }}
      # An agent guards its board also while somebody replaces a reference.
      - {name: reference-{{ . }}, configMap: {name: {{ . }}, optional: true}}
      {{- end }}
      {{- with $values.references.hostPath }}
      - {name: host-references, hostPath: {path: {{ . }}, type: DirectoryOrCreate}}
      {{- end }}
    {{- with .nodeSelector }}
    nodeSelector:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .affinity }}
    affinity:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $values.tolerations }}
    tolerations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end -}}

{{/* Jetsons: arm64, not ignored, and where asked for with a label that NVIDIA's tools set. */}}
{{- define "powertrain.agent.affinity" -}}
{{- $values := .Values.agent -}}
{{- if $values.affinity -}}
{{- toYaml $values.affinity -}}
{{- else -}}
{{- $base := list (dict "key" "kubernetes.io/arch" "operator" "In" "values" (list "arm64")) (dict "key" "powertrain.io/ignore" "operator" "NotIn" "values" (list "true")) -}}
{{- $terms := list -}}
{{- if $values.nodes.onlyLabelled -}}
{{- range $key, $allowed := $values.nodes.labels -}}
{{- $terms = append $terms (dict "matchExpressions" (append $base (dict "key" $key "operator" "In" "values" $allowed))) -}}
{{- end -}}
{{- else -}}
{{- $terms = list (dict "matchExpressions" $base) -}}
{{- end -}}
{{- dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms)) | toYaml -}}
{{- end -}}
{{- end -}}
